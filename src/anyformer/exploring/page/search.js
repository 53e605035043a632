// Search over the catalogue: every word must be found in an entry's name, maker, year, summary or columns, or in the name of a
// mechanism or a topic, which leads to the atlas; or in the names of a word of the glossary, which is explained. Entries of the
// catalogue that a site lacks are found too, with the commands that have them.

import { h, fill } from "./dom.js";
import { commands } from "./entry-link.js";
import { marked } from "./fields.js";
import { count } from "./numbers.js";
import { dialog } from "./tools.js";

const MOST = 40, NEW = 9999;

const singular = (word) => (word.length > 3 ? word.replace(/s$/, "") : word);

/** Letters and digits alone, without the s of a plural, in which spellings agree, as in `anyformer help`: KV-Cache, kv_caches. */
const letters = (text) => text.toLowerCase().replace(/[^a-zµ0-9]/g, "").replace(/s$/, "");

/** Rows that have all words, in singular or plural, those whose name begins with them first. */
export function found(rows, said) {
  const wanted = said.toLowerCase().split(/\s+/).filter(Boolean);
  const ranked = [];
  for (const row of rows) {
    const names = [row.name].flat();
    let rank = letters(said) && names.some((name) => letters(name) === letters(said)) ? 8 : 0;
    for (const one of rank ? [] : wanted) {
      rank += Math.max(...names.map((name) => scored(name, one, row.words)));
    }
    if (rank >= 0) ranked.push([rank, row]);
  }
  ranked.sort(([a, one], [b, other]) => b - a || Boolean(one.elsewhere) - Boolean(other.elsewhere) || other.year - one.year);
  return ranked.map(([, row]) => row);
}

/** How well a word finds a name: it is all of it, its beginning, in it, or among the words beside it. */
function scored(name, one, words) {
  const at = name.indexOf(one);
  return name === one ? 8 : at === 0 ? 4 : at > 0 ? 2 : words.includes(singular(one)) ? 1 : -100;
}

/** An entry among the rows; it is found by its mechanisms too, those that its columns tell. */
function searchable(entry, mechanisms) {
  const columns = Object.entries(entry.columns ?? {}).flatMap(([name, value]) => (name === "experts" ? (value ? ["experts moe"] : ["dense"]) : [value].flat()));
  const has = ({ column, word }) => column && [entry.columns?.[column] ?? []].flat().some((said) => String(said).split(/[+ ]/).includes(word));
  return { ...entry, words: [entry.name, entry.organisation, entry.year, entry.lineage, entry.summary, ...columns, ...mechanisms.filter(has).map((each) => each.name)].join(" ").toLowerCase() };
}

/** A mechanism among the rows; `words`: its name in small letters, and its initials. */
function mechanism({ name, topic }) {
  const outside = name.replace(/ \(.*/, "").toLowerCase(), initials = outside.split(/[^a-z0-9]+/).map((word) => word[0]).join("");
  return { name: outside, title: name, topic, organisation: "atlas", year: NEW, summary: `a mechanism of the topic ${topic}`, columns: {}, words: `${name.toLowerCase()} ${initials.length > 2 ? initials : ""}` };
}

/** A topic of the atlas among the rows. */
function topic({ name, title, question }) {
  return { name: title.toLowerCase(), title, topic: name, organisation: "atlas", year: NEW, summary: question, columns: {}, words: `${name} ${title} ${question}`.toLowerCase() };
}

/** A word of the field among the rows, by all its names. */
function word({ names, text, place }) {
  const small = names.map((name) => name.toLowerCase());
  return { name: small, title: names.join(", "), text, place, organisation: "glossary", year: NEW - 1, summary: text, columns: {}, words: small.join(" ") };
}

/** Where an entry is that this site lacks. */
function absent({ name, summary }) {
  return [commands(name).map(([command, does], number) => [number ? ", " : "", h("code", {}, command), " ", ...marked(does)]), `; in the catalogue, and not in this site: ${summary}`];
}

/** A window that explains a word of the field. */
function explain({ title, text, place }) {
  dialog(title, h("p", {}, marked(text)), h("p", { class: "faint" }, `More in ${place}; `, h("code", {}, `anyformer help "${title.split(", ")[0]}"`)));
}

export class Search {
  /** `choose(name, beside)` opens an entry, beside what is shown or instead of it; `more()` gives what is found beside entries. */
  constructor(element, start, choose, more) {
    this.rows = [...start.opened.filter((each) => each.kind !== "study").map((each) => ({ name: each.of, title: each.title, organisation: "", year: NEW, summary: each.file ? "beside the catalogue" : "opened here", columns: each.columns ?? {} })), ...start.catalogue].map((each) => searchable(each, start.mechanisms));
    this.mechanisms = [...start.topics.map(topic), ...start.mechanisms.map(mechanism)];
    this.start = start;
    this.choose = choose;
    this.more = more;
    this.asked = null;
    this.others = [];
    this.at = -1;
    this.input = h("input", {
      type: "search", id: "searched", role: "combobox", "aria-expanded": "false", "aria-controls": "found", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false",
      placeholder: `search ${new Set(this.rows.map((row) => row.name)).size} architectures`, "aria-label": "search the catalogue", "aria-keyshortcuts": "/",
    });
    this.list = h("ul", { id: "found", role: "listbox", "aria-label": "architectures", hidden: true });
    this.input.addEventListener("input", () => this.show());
    this.input.addEventListener("focus", () => this.show());
    this.input.addEventListener("blur", () => setTimeout(() => this.hide(), 150));
    this.input.addEventListener("keydown", (event) => this.pressed(event));
    fill(element, this.input, this.list);
  }

  /** Words of the field and what is elsewhere, asked for when something is searched first. */
  read() {
    this.asked ??= this.more().then(({ glossary, elsewhere }) => {
      this.others = [...glossary.map(word), ...elsewhere.map((entry) => ({ ...searchable(entry, this.start.mechanisms), elsewhere: true }))];
      if (!this.list.hidden) this.show();
    }).catch(() => (this.asked = null));
  }

  show() {
    this.read();
    this.shown = found(this.input.value.trim() ? [...this.rows, ...this.mechanisms, ...this.others] : this.rows, this.input.value);
    this.at = this.input.value && this.shown.length ? 0 : -1;
    fill(this.list, this.shown.slice(0, MOST).map((row, number) => this.row(row, number)),
      this.shown.length > MOST ? h("li", { class: "faint", role: "presentation" }, `and ${this.shown.length - MOST} more: say another word`) : null,
      this.shown.length ? null : h("li", { class: "faint", role: "presentation" }, "none has all these words, nor is it a word of the glossary: say fewer, or other ones"));
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.mark();
  }

  row(row, number) {
    return h("li", { role: "option", class: row.elsewhere ? "elsewhere" : null, id: `found-${number}`, "aria-selected": "false", onmousedown: (event) => {
      event.preventDefault();
      this.take(number, event.shiftKey);
    } }, h("strong", {}, row.topic || row.text ? row.title : row.name), h("span", { class: "faint" }, [row.organisation, row.year >= NEW - 1 ? "" : row.year].filter(Boolean).join(" ")),
    h("span", { class: "number" }, row.columns.parameters ? count(row.columns.parameters) : ""), h("small", {}, row.elsewhere ? absent(row) : row.text ? marked(row.summary) : row.summary));
  }

  mark() {
    [...this.list.querySelectorAll("[role=option]")].forEach((each, number) => {
      each.setAttribute("aria-selected", String(number === this.at));
      if (number === this.at) each.scrollIntoView({ block: "nearest" });
    });
    if (this.at >= 0) this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  hide() {
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  take(number, beside) {
    const row = this.shown?.[number];
    if (!row) return;
    this.input.value = "";
    this.hide();
    this.input.blur();
    if (row.topic) location.hash = `#atlas/topics/${encodeURIComponent(row.topic)}`;
    else if (row.text) explain(row);
    else this.choose(row.name, beside);
  }

  pressed(event) {
    const most = Math.min(MOST, this.shown?.length ?? 0);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (this.list.hidden) return this.show();
      this.at = most ? (this.at + (event.key === "ArrowDown" ? 1 : -1) + most) % most : -1;
      return this.mark();
    }
    if (event.key === "Enter") {
      event.preventDefault(); // else it presses the button on which a window that opens has the keyboard
      this.take(Math.max(this.at, 0), event.shiftKey);
    }
    if (event.key === "Escape") {
      this.input.value = "";
      this.hide();
      this.input.blur();
    }
    return undefined;
  }
}
