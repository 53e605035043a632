// The call that is priced: batch, length, precision, checkpointing, accelerators.

import { h, fill } from "./dom.js";
import { refusal } from "./fields.js";
import { parsed, tokens } from "./numbers.js";

const LENGTHS = ["512", "2k", "4k", "8k", "32k", "128k", "1M"];

/** The controls of a call; `edit({length: "8k"})` changes it. */
export class Call {
  constructor(start, edit) {
    this.start = start;
    this.edit = edit;
    this.drawn = "";
    this.element = h("form", { class: "call", "aria-label": "the call that is priced", onsubmit: (event) => event.preventDefault() });
  }

  /** Show a call; `errors` by the name of what was refused. */
  show(call, errors) {
    const key = JSON.stringify([call, errors]);
    if (key === this.drawn) return;
    this.drawn = key;
    fill(
      this.element,
      this.number("length", "tokens", call, errors, LENGTHS),
      this.number("batch", "batch", call, errors, ["1", "4", "16", "64", "256"]),
      call.source ? this.number("source", "source tokens", call, errors, LENGTHS) : null,
      this.choice("precision", "precision", this.start.precision, call),
      this.choice("checkpointing", "checkpointing", this.start.checkpointing, call),
      this.accelerators(call),
      this.rate(call, errors),
      errors.call ? refusal(errors.call, () => undefined) : null,
    );
  }

  number(name, title, call, errors, usual) {
    const id = `call-${name}`;
    const element = h("input", { id, "data-key": id, type: "text", inputmode: "numeric", autocomplete: "off", spellcheck: "false", list: `${id}-usual`, value: shown(call[name]) });
    element.addEventListener("change", () => this.edit({ [name]: element.value.trim() }));
    element.addEventListener("keydown", (event) => {
      const value = parsed(element.value);
      if ((event.key !== "ArrowUp" && event.key !== "ArrowDown") || value === null || event.altKey) return;
      event.preventDefault();
      const next = event.key === "ArrowUp" ? value * 2 : Math.max(1, Math.floor(value / 2));
      element.value = tokens(next);
      this.edit({ [name]: String(next) });
    });
    return h("div", { class: "field" }, h("label", { for: id }, title), element, h("datalist", { id: `${id}-usual` }, usual.map((value) => h("option", { value }))), errors[name] ? refusal(errors[name], (value) => this.edit({ [name]: value })) : null);
  }

  /** Dollars for an hour of one accelerator. */
  rate(call, errors) {
    const element = h("input", { id: "call-rate", "data-key": "call-rate", type: "text", inputmode: "decimal", autocomplete: "off", value: call.rate ?? this.start.rate ?? "" });
    element.addEventListener("change", () => this.edit({ rate: element.value.trim() }));
    return h("div", { class: "field rate" }, h("label", { for: "call-rate" }, "$ per hour"), element, errors.rate ? refusal(errors.rate, (value) => this.edit({ rate: value })) : null);
  }

  choice(name, title, among, call) {
    const id = `call-${name}`;
    const options = among.map((value) => h("option", { value, selected: value === call[name] }, value));
    return h("div", { class: "field" }, h("label", { for: id }, title), h("select", { id, "data-key": id, onchange: (event) => this.edit({ [name]: event.target.value }) }, options));
  }

  /** Those chosen as buttons that take them away, and a choice of one more. */
  accelerators(call) {
    const titles = new Map(this.start.accelerators.map((each) => [each.name, each.title]));
    const chosen = call.on.map((name) => h("button", { type: "button", class: "chip", "aria-label": `without ${titles.get(name) ?? name}`, onclick: () => this.edit({ on: call.on.filter((each) => each !== name) }) }, titles.get(name) ?? name, h("span", { "aria-hidden": "true" }, " ×")));
    const more = h("select", { id: "call-on", "data-key": "call-on", disabled: call.on.length >= 5 }, h("option", { value: "" }, call.on.length ? "and …" : "choose …"),
      this.start.accelerators.filter((each) => !call.on.includes(each.name)).map((each) => h("option", { value: each.name }, each.title)));
    more.addEventListener("change", () => more.value && this.edit({ on: [...call.on, more.value] }));
    return h("div", { class: "field on" }, h("label", { for: "call-on" }, "accelerators"), h("div", { class: "chips" }, chosen, more));
  }
}

/** A count as it is written, an absent one as nothing. */
function shown(said) {
  const value = said === undefined || said === null || said === "" ? null : parsed(String(said));
  return value === null ? String(said ?? "") : tokens(value);
}
