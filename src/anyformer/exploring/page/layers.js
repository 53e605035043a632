// A stack gets one more kind of layer: a copy of one under a name of its own, and an order that has it. Nothing but changes by path.

import { h } from "./dom.js";
import { refusal, word } from "./fields.js";
import { pathOf, valueOf } from "./question.js";

/** The form that adds a kind of layer to a stack; what is written stays while an answer is awaited or refused. */
export class Layers {
  constructor(edit) {
    this.edit = edit;
    this.forget("");
  }

  forget(order) {
    this.now = { order, from: null, name: "", said: null, open: false };
  }

  /** The form for a part that has kinds of layers: {order: the path of the order, value: the order, names}; `set`: the changes so far. */
  form({ order, value, names }, set, errors) {
    if (this.now.order !== `${order}=${value}`) this.forget(`${order}=${value}`);
    const { now } = this, stack = order.slice(0, order.lastIndexOf(".") + 1);
    const id = (what) => `layers-${what}`, error = errors[`${stack}${now.name}`];
    const from = h("select", { id: id("from"), "data-key": id("from") }, names.map((name) => h("option", { value: name, selected: name === (now.from ?? names[0]) }, name)));
    const name = h("input", { id: id("name"), "data-key": id("name"), type: "text", autocomplete: "off", spellcheck: "false", required: true, value: now.name, placeholder: "local" });
    const said = h("input", { id: id("order"), "data-key": id("order"), type: "text", autocomplete: "off", spellcheck: "false", required: true, value: now.said ?? suggested(value, from.value, now.name) });
    const taken = () => Object.assign(now, { from: from.value, name: name.value.trim(), said: said.value === suggested(value, from.value, name.value.trim()) ? null : said.value });
    const again = () => {
      if (now.said === null) said.value = suggested(value, from.value, name.value.trim());
      taken();
    };
    name.addEventListener("input", again);
    from.addEventListener("change", again);
    said.addEventListener("input", taken);
    const put = (event) => {
      event.preventDefault();
      taken();
      if (now.name) this.edit(copied(stack, from.value, now.name, set, [order, word(said.value.trim())]));
    };
    const rows = [["copy of", from, "from"], ["called", name, "name"], ["order", said, "order"]].map(([title, input, what]) => h("p", {}, h("label", { for: id(what) }, title), input));
    return h("details", { class: "others adds", open: now.open || Boolean(error), ontoggle: (event) => (now.open = event.target.open) }, h("summary", {}, "add a kind of layer"),
      h("form", { class: "needs", "aria-label": "add a kind of layer", onsubmit: put }, rows, h("button", { type: "submit", class: "main" }, "add it"),
        error ? refusal(error, () => undefined) : null, h("p", { class: "doc" }, "A copy, to be changed where it stands. In an order ", h("code", {}, "*3"), " repeats a name or a group in parentheses.")));
  }
}

/** The changes that add a copy: those made below its original are said of the copy too, so that they stay when the original changes on. */
function copied(stack, from, name, set, order) {
  const inside = set.filter((each) => pathOf(each).startsWith(`${stack}${from}.`)).map((each) => [`${stack}${name}.${pathOf(each).slice(stack.length + from.length + 1)}`, valueOf(each)]);
  return [[`${stack}${name}`, from], ...inside, order];
}

/** An order in which the new kind takes three of four layers of a kind that stands alone; else the order as it is, the new one behind. */
export function suggested(order, from, name) {
  const found = /^([a-z][a-z0-9_]*)(?:\*(\d+))?$/.exec(order), many = Number(found?.[2] ?? 1);
  if (!name || found?.[1] !== from) return name ? `${order} ${name}` : order;
  const turns = Math.floor(many / 4), rest = many % 4, times = (text, count) => (count === 1 ? text : `${text}*${count}`);
  if (turns === 0) return many > 1 ? `${times(name, many - 1)} ${from}` : `${name} ${from}`;
  return [times(turns === 1 ? `${name}*3 ${from}` : `(${name}*3 ${from})`, turns), rest ? times(name, rest) : ""].filter(Boolean).join(" ");
}
