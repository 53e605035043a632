// Filters of the atlas: every column of the table of models, and every mechanism. A filter is a value that an address holds.

import { fill, h, later, say } from "./dom.js";
import { parsed, whole } from "./numbers.js";

const MANY = 9;

export class Filters {
  constructor(data) {
    this.data = data;
    this.text = "";
    this.words_ = new Map();
    this.spans = new Map();
    this.has = new Set();
  }

  /** The filters of the words of an address; words that it does not know are left out. */
  static read(data, words) {
    const filters = new Filters(data);
    for (const word of words) {
      const at = word.indexOf("="), name = word.slice(0, at), value = word.slice(at + 1);
      if (name === "text") filters.text = value;
      else if (name === "has") {
        const found = data.mechanisms.findIndex((each) => each.name === value);
        if (found >= 0) filters.has.add(found);
      } else if (name in data.words) filters.words_.set(name, new Set(value.split("+")));
      else if (name in data.numbers) {
        const [low, high] = value.split("-").map((each) => (each === "" ? null : Number(each)));
        filters.spans.set(name, [low ?? null, high ?? null]);
      }
    }
    return filters;
  }

  /** The words that `read` reads. */
  words() {
    return [
      ...(this.text ? [`text=${this.text}`] : []),
      ...[...this.words_].filter(([, own]) => own.size).map(([name, own]) => `${name}=${[...own].join("+")}`),
      ...[...this.spans].filter(([, span]) => span.some((each) => each !== null)).map(([name, [low, high]]) => `${name}=${low ?? ""}-${high ?? ""}`),
      ...[...this.has].map((each) => `has=${this.data.mechanisms[each].name}`),
    ];
  }

  /** Whether an entry passes; `without`: the column that is not asked, for the counts beside its words. */
  takes(entry, without = null) {
    const told = this.text.toLowerCase();
    if (told && !`${entry.name} ${entry.organisation} ${entry.summary} ${entry.source}`.toLowerCase().includes(told)) return false;
    for (const [name, own] of this.words_) if (name !== without && own.size && !entry.words[name].some((word) => own.has(word))) return false;
    for (const [name, [low, high]] of this.spans) {
      const value = entry.numbers[name];
      if (name !== without && ((low !== null && value < low) || (high !== null && value > high))) return false;
    }
    return [...this.has].every((each) => entry.mechanisms.includes(each));
  }

  entries() {
    return this.data.entries.filter((entry) => this.takes(entry));
  }

  get any() {
    return this.words().length > 0;
  }

  clear() {
    this.text = "";
    this.words_.clear();
    this.spans.clear();
    this.has.clear();
  }
}

/** How many entries have each word of a column, most first. */
function counted(data, filters, column) {
  const counts = new Map();
  for (const entry of data.entries) for (const word of entry.words[column]) counts.set(word, (counts.get(word) ?? 0) + (filters.takes(entry, column) ? 1 : 0));
  return [...counts].sort(([a, n], [b, m]) => m - n || a.localeCompare(b));
}

export class FilterPanel {
  constructor(data, filters, changed) {
    Object.assign(this, { data, filters, changed });
    this.open = new Set(["shape", "year"]);
    for (const name of [...filters.words_.keys(), ...filters.spans.keys()]) this.open.add(name);
    this.element = h("form", { class: "filters", "aria-label": "filters", onsubmit: (event) => event.preventDefault() });
    this.soon = later(120, () => this.moved());
    this.draw();
  }

  moved() {
    this.draw();
    this.changed();
    say(`${this.filters.entries().length} of ${this.data.entries.length} models`);
  }

  draw() {
    const { data, filters } = this, shown = filters.entries().length;
    fill(this.element,
      h("p", { class: "tally" }, h("strong", {}, `${whole(shown)} of ${whole(data.entries.length)}`), " models", filters.any ? h("button", { type: "button", class: "quiet", "data-key": "clear", onclick: () => { filters.clear(); this.moved(); } }, "clear all") : null),
      h("label", { class: "line" }, h("span", {}, "text"), h("input", { type: "search", value: filters.text, "data-key": "text", oninput: (event) => { filters.text = event.target.value.trim(); this.soon(); } })),
      h("label", { class: "line" }, h("span", {}, "has"), this.mechanisms()),
      filters.has.size ? h("p", { class: "chips" }, [...filters.has].map((each) => h("button", { type: "button", class: "chip", "data-key": `has-${each}`, "aria-label": `without the filter ${data.mechanisms[each].name}`, onclick: () => { filters.has.delete(each); this.moved(); } }, data.mechanisms[each].name, " ×"))) : null,
      this.numbers("year"),
      Object.keys(data.words).map((name) => this.column(name)),
      Object.keys(data.numbers).filter((name) => name !== "year").map((name) => this.numbers(name)));
  }

  mechanisms() {
    const { data, filters } = this;
    const choose = (event) => {
      if (event.target.value !== "") filters.has.add(Number(event.target.value));
      this.moved();
    };
    return h("select", { "data-key": "has", onchange: choose }, h("option", { value: "" }, "any mechanism"), grouped(data, (each) => !filters.has.has(each)));
  }

  column(name) {
    const { data, filters } = this, own = filters.words_.get(name) ?? new Set();
    const words = counted(data, filters, name), long = words.length > MANY;
    const turn = (word) => (event) => {
      if (event.target.checked) own.add(word);
      else own.delete(word);
      filters.words_.set(name, own);
      this.moved();
    };
    return this.folded(name, data.words[name], own.size ? [...own].join(", ") : "",
      h("fieldset", { class: long ? "words long" : "words" }, h("legend", { class: "unseen" }, data.words[name]), words.map(([word, count]) =>
        h("label", {}, h("input", { type: "checkbox", checked: own.has(word), "data-key": `${name}-${word}`, onchange: turn(word) }), h("span", {}, word), h("small", {}, count)))));
  }

  numbers(name) {
    const { data, filters } = this, [low, high] = filters.spans.get(name) ?? [null, null];
    const given = (at) => (event) => {
      const span = [...(filters.spans.get(name) ?? [null, null])];
      span[at] = event.target.value.trim() === "" ? null : amount(event.target.value);
      filters.spans.set(name, span);
      this.soon();
    };
    const field = (at, said, value) => h("input", { type: "text", inputmode: "decimal", value: value === null ? "" : value >= 1e6 ? `${value / 1e9}B` : String(value), placeholder: said, "aria-label": `${data.numbers[name]}, ${at ? "at most" : "at least"}`, "data-key": `${name}-${at}`, onchange: given(at) });
    const told = low === null && high === null ? "" : `${low ?? ""} to ${high ?? ""}`;
    return this.folded(name, data.numbers[name], told, h("p", { class: "span" }, field(0, "from", low), field(1, "to", high)));
  }

  folded(name, title, told, inside) {
    const opened = (event) => (event.target.open ? this.open.add(name) : this.open.delete(name));
    return h("details", { open: this.open.has(name), ontoggle: opened }, h("summary", { "data-key": `fold-${name}` }, title, told ? h("small", {}, ` ${told}`) : null), inside);
  }
}

/** 7B -> 7e9, 500M -> 5e8: counts of parameters, where k is a thousand. */
function amount(text) {
  const found = /^\s*([\d.]+)\s*([kKMBT])\s*$/.exec(text);
  return found ? Number(found[1]) * { k: 1e3, K: 1e3, M: 1e6, B: 1e9, T: 1e12 }[found[2]] : parsed(text);
}

/** Options of a choice of mechanisms, under the titles of their topics. */
export function grouped(data, wanted = () => true, chosen = null) {
  return data.topics.map((topic) => h("optgroup", { label: topic.title }, data.mechanisms.map((each, number) =>
    each.topic === topic.name && wanted(number) ? h("option", { value: number, selected: number === chosen }, each.name) : null)));
}
