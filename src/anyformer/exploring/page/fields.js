// Fields that are edited where they stand: numbers, choices, words, whole slots. What is refused is said below the field.

import { h } from "./dom.js";
import { parsed, whole } from "./numbers.js";

/** What TOML makes of a value in words: a bare word of letters stays bare, other text is quoted. */
export const word = (text) => (/^[A-Za-z_][\w-]*$/.test(text) ? text : JSON.stringify(text));

/** A refusal below a field, with what was meant as buttons. */
export function refusal(error, take) {
  const meant = (error.suggestions ?? []).map((each) => h("button", { type: "button", class: "meant", onclick: () => take(each) }, each));
  return h("p", { class: "refused", role: "alert" }, error.message || error.text, meant.length ? [" Did you mean ", ...joined(meant), "?"] : null);
}

function joined(items) {
  return items.flatMap((item, number) => (number ? [number === items.length - 1 ? " or " : ", ", item] : [item]));
}

/** A field of a part as a row of a list: its name, what edits it, its default, what it means. */
export function field(about, { edit, open, error }) {
  const id = `field-${about.path}`;
  const change = (value, path = about.path) => edit(path, value);
  const input = INPUTS[about.type] ?? text;
  const bad = error ? refusal(error, (value) => change(about.type === "text" ? word(value) : value)) : null;
  const attributes = { id, "data-key": about.path, "aria-describedby": about.doc ? `${id}-doc` : null, "aria-invalid": error ? "true" : null };
  const moved = about.is_default === false && about.default !== undefined && about.default !== null && about.type !== "part";
  return h(
    "div",
    { class: `field ${about.type}${error ? " bad" : ""}` },
    h("label", { for: id }, about.name.replaceAll("_", " ")),
    h("div", { class: "value" }, input(about, attributes, change, error), about.type === "part" && about.value !== null ? opener(about, open) : null),
    moved ? h("span", { class: "usual" }, `usually ${shown(about.default)}`) : null,
    about.doc ? h("p", { class: "doc", id: `${id}-doc` }, ...marked(about.doc)) : null,
    bad,
  );
}

/** Text with `code` in backticks. */
export function marked(text) {
  return text.split(/``?/).map((piece, number) => (number % 2 ? h("code", {}, piece) : piece));
}

function shown(value) {
  return typeof value === "number" ? whole(value) : typeof value === "string" ? value : JSON.stringify(value);
}

function opener(about, open) {
  return h("button", { type: "button", class: "open-part", "aria-label": `open ${about.name.replaceAll("_", " ")}`, onclick: () => open(about.path) }, "open");
}

const whatever = (about) => (about.value === null || about.value === undefined ? "" : typeof about.value === "number" ? whole(about.value) : (about.text ?? String(about.value)));

/** Enter or leaving the field takes the value, Escape gives the old one back. */
function taking(element, before, take) {
  let last = before;
  const done = () => {
    if (element.value.trim() === last) return;
    last = element.value.trim();
    take(last);
  };
  element.addEventListener("change", done);
  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter") done();
    if (event.key === "Escape") {
      element.value = before;
      last = before;
      event.stopPropagation();
    }
  });
  return element;
}

function numeric(about, attributes, change, error) {
  const before = whatever(about);
  const element = h("input", { ...attributes, type: "text", inputmode: "decimal", autocomplete: "off", spellcheck: "false", value: error?.tried ?? before, placeholder: about.optional ? "none" : "" });
  taking(element, before, (said) => {
    const value = parsed(said);
    if (said === "" && about.optional) change("none");
    else change(value === null ? word(said) : about.type === "integer" && Number.isInteger(value) ? value.toFixed(0) : String(value));
  });
  if (about.type === "integer") stepping(element, change);
  return element;
}

/** Up and down count by one, with Shift they double and halve; a quick row of them is one change. */
function stepping(element, change) {
  let waiting = 0;
  element.addEventListener("keydown", (event) => {
    const up = event.key === "ArrowUp", value = parsed(element.value);
    if ((!up && event.key !== "ArrowDown") || value === null) return;
    event.preventDefault();
    const next = event.shiftKey ? (up ? value * 2 : value / 2) : value + (up ? 1 : -1);
    if (!Number.isInteger(next)) return;
    element.value = whole(next);
    clearTimeout(waiting);
    waiting = setTimeout(() => change(next.toFixed(0)), 140);
  });
}

function bool(about, attributes, change) {
  return h("input", { ...attributes, type: "checkbox", checked: about.value === true, onchange: (event) => change(String(event.target.checked)) });
}

function choice(about, attributes, change) {
  const options = about.choices.map((each) => h("option", { value: each, selected: String(each) === String(about.value) }, String(each).replaceAll("_", " ")));
  const none = about.optional ? h("option", { value: "none", selected: about.value === null }, "none") : null;
  return h("select", { ...attributes, onchange: (event) => change(typeof about.value === "string" ? word(event.target.value) : event.target.value) }, none, options);
}

function text(about, attributes, change, error) {
  const before = whatever(about);
  const element = h("input", { ...attributes, type: "text", autocomplete: "off", spellcheck: "false", value: error?.tried ?? before, placeholder: about.optional ? "none" : "" });
  return taking(element, before, (said) => change(said === "" && about.optional ? "none" : about.type === "text" ? word(said) : said));
}

/** A slot: what stands in it by kind, and what else may. */
function slot(about, attributes, change) {
  return kinds(about.kinds ?? [], about.optional ? { empty: about.value === null } : null, about.text, attributes, change);
}

/** What may stand at a place, as a choice; a kind's own `set` says how. */
export function kinds(list, none, now, attributes, change) {
  const known = list.some((kind) => kind.now) || none?.empty;
  const element = h(
    "select",
    { ...attributes, disabled: list.length === 0 && !none },
    known ? null : h("option", { value: "", selected: true }, now ?? "as it is"),
    none ? h("option", { value: "none", selected: none.empty }, "none") : null,
    list.map((kind, number) => h("option", { value: number, selected: kind.now === true, title: kind.sentence }, kind.kind.replaceAll("_", " "))),
  );
  element.addEventListener("change", () => {
    if (element.value === "none") return change("none");
    if (element.value === "") return undefined;
    const { set } = list[Number(element.value)], at = set.indexOf("=");
    return change(set.slice(at + 1), set.slice(0, at));
  });
  return element;
}

const INPUTS = { integer: numeric, number: numeric, boolean: bool, choice, text, part: slot };
