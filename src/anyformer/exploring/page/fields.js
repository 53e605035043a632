// Fields that are edited where they stand: numbers, choices, words, whole slots. What is refused is said below the field.

import { h } from "./dom.js";
import { parsed, whole } from "./numbers.js";

/** What TOML makes of a value in words: a bare word of letters stays bare, other text is quoted. */
export const word = (text) => (/^[A-Za-z_][\w-]*$/.test(text) ? text : JSON.stringify(text));

/** A refusal below a field, with what was meant as buttons. */
export function refusal(error, take) {
  const meant = (error.suggestions ?? []).map((each) => h("button", { type: "button", class: "meant", onclick: () => take(each) }, each));
  return h("p", { class: "refused", role: "alert" }, error.message || error.text, meant.length ? [/did you mean/i.test(error.message ?? "") ? " Take " : " Did you mean ", ...joined(meant), "?"] : null);
}

/** An entry that a site lacks, which is no fault, and the commands that have it. */
export function absence({ elsewhere, message }) {
  return h("div", { class: "wrong", role: "status" }, h("h1", {}, elsewhere), h("p", {}, "In the catalogue, and not in this site."), h("p", {}, marked(message)));
}

function joined(items) {
  return items.flatMap((item, number) => (number ? [number === items.length - 1 ? " or " : ", ", item] : [item]));
}

/** Text with `code` in backticks. */
export function marked(text) {
  return text.split(/``?/).map((piece, number) => (number % 2 ? h("code", {}, piece) : piece));
}

export const spaced = (name) => name.replaceAll("_", " ");

/**
 * A field of a part as a row of a list: its name, what edits it, its default, what it means.
 * `about`: the field with what its class says of it; `edit(changes)` takes [path, value] pairs, `open(path)` opens a part.
 */
export function field(about, { edit, open, error }) {
  const id = `field-${about.path}`;
  const change = (value) => edit([[about.path, value]]);
  const bad = error ? refusal(error, (value) => change(about.type === "text" ? word(value) : value)) : null;
  const attributes = { id, "data-key": about.path, "aria-describedby": about.doc ? `${id}-doc` : null, "aria-invalid": error ? "true" : null };
  return h(
    "div",
    { class: `field${error ? " bad" : ""}` },
    h("label", { for: id }, spaced(about.title ?? about.name)),
    h("div", { class: "value" }, (INPUTS[about.type] ?? text)(about, attributes, { change, error, edit, open }), about.part ? opener(about.name, about.part, open) : null),
    usual(about) ? h("span", { class: "usual" }, `usually ${usual(about)}`) : null,
    about.doc ? h("p", { class: "doc", id: `${id}-doc` }, ...marked(about.doc)) : null,
    bad,
  );
}

/** The default of a plain field that has another value. */
function usual(about) {
  if (about.default || about.type.startsWith("part") || about.usual === null || about.usual === undefined) return "";
  return typeof about.usual === "number" ? whole(about.usual) : typeof about.usual === "string" ? about.usual : JSON.stringify(about.usual);
}

function opener(name, path, open) {
  return h("button", { type: "button", class: "open-part", "aria-label": `open ${spaced(name)}`, onclick: () => open(path) }, "open");
}

function whatever(about) {
  if (about.value === null || about.value === undefined) return "";
  if (Number.isInteger(about.value)) return whole(about.value);
  return typeof about.value === "string" && about.type !== "part" ? about.value : (about.text ?? String(about.value));
}

/** Enter or leaving the field takes the value, Escape gives the old one back. */
function taking(element, before, take) {
  let last = element.value.trim();
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

function written(about, attributes, error, more) {
  return h("input", { ...attributes, type: "text", autocomplete: "off", spellcheck: "false", value: error?.tried ?? whatever(about), placeholder: about.optional ? "none" : "", ...more });
}

function numeric(about, attributes, { change, error }) {
  const element = taking(written(about, attributes, error, { inputmode: "decimal" }), whatever(about), (said) => {
    change(said === "" && about.optional ? "none" : number(said, about.type));
  });
  if (about.type === "integer") stepping(element, change);
  return element;
}

/** A number as a description has it: of a size k is 1,024. What is none, and a fraction with a letter, which the answer reads or
 * refuses in words, stay as they are written. */
export function number(said, type) {
  const value = parsed(said);
  if (value !== null && type !== "integer" && /[a-z]$/i.test(said)) return said;
  return value === null ? word(said) : type === "integer" && Number.isInteger(value) ? value.toFixed(0) : String(value);
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

function bool(about, attributes, { change }) {
  return h("input", { ...attributes, type: "checkbox", checked: about.value === true, onchange: (event) => change(String(event.target.checked)) });
}

function choice(about, attributes, { change }) {
  const options = about.choices.map((each) => h("option", { value: each, selected: String(each) === String(about.value) }, spaced(String(each))));
  const none = about.optional ? h("option", { value: "none", selected: about.value === null }, "none") : null;
  return h("select", { ...attributes, onchange: (event) => change(typeof about.value === "number" ? event.target.value : word(event.target.value)) }, none, options);
}

function text(about, attributes, { change, error }) {
  return taking(written(about, attributes, error), whatever(about), (said) => change(said === "" && about.optional ? "none" : about.type === "text" ? word(said) : said));
}

/** A slot: what stands in it by kind, and what else may. */
function slot(about, attributes, { edit }) {
  return kinds(about.place, attributes, edit);
}

/** A set of parts by their names: those in it are opened or taken out, others are put in. */
function several(about, attributes, { edit, open }) {
  const here = Object.keys(about.value ?? {}), { place } = about;
  const rows = here.map((name) => h("span", { class: "member" }, spaced(name), opener(name, place.member(name), open),
    h("button", { type: "button", class: "quiet", "aria-label": `take ${spaced(name)} out`, onclick: () => edit([[`${about.path}.${name}`, "none"]]) }, "×")));
  const others = (place.slot?.kinds ?? []).filter((each) => !here.includes(each.kind));
  const more = others.length ? kinds({ ...place, now: null, adding: true, slot: { kinds: others } }, attributes, edit) : h("input", { ...attributes, value: about.text ?? "", disabled: true });
  return h("div", { class: "several" }, rows, more);
}

/**
 * What may stand at a place, as a choice. `place`: {path, now: the kind there or null, optional, slot: {kinds}, has: names of
 * the fields given there with their texts, like(name): a value that a field of that name may well have, slots: what fits any slot}. Values that a kind needs and nobody can know are asked for.
 */
export function kinds(place, attributes, edit) {
  const list = place.slot?.kinds ?? [], here = (each) => place.now !== null && (each.kind || each.class) === place.now;
  const known = list.some(here) || place.now === null;
  const select = h(
    "select",
    { ...attributes, disabled: list.length + (place.optional || place.now === null ? 1 : 0) < 2 },
    known ? null : h("option", { value: "", selected: true }, place.now ?? place.text ?? "as it is"),
    place.optional || place.now === null ? h("option", { value: "none", selected: place.now === null }, place.adding ? "put in …" : "none") : null,
    list.map((each, at) => h("option", { value: at, selected: here(each), title: each.sentence }, spaced(each.kind || each.class))),
  );
  const asked = h("div", { class: "needs", hidden: true });
  select.addEventListener("change", () => {
    asked.hidden = true;
    if (select.value === "") return undefined;
    if (select.value === "none") return place.adding ? undefined : edit([[place.path, "none"]]);
    const chosen = list[Number(select.value)], missing = chosen.needs.filter((need) => !(need.name in (place.has ?? {})));
    if (!missing.length) return edit(...filled(place, chosen, []));
    return needs(asked, place, chosen, missing, edit);
  });
  return h("div", { class: "slot" }, select, asked);
}

/** What `edit` takes to put a kind into a place: into an empty one a table; into another the kind and what is new in it, or where
 * what stands there has more than the kind takes, a table too, with what it needs. */
function filled(place, chosen, values) {
  const table = (pairs) => `{${pairs.map(([name, value]) => `${name} = ${value}`).join(", ")}}`, kind = [["kind", JSON.stringify(chosen.kind)]];
  if (place.now !== null) {
    const kept = chosen.needs.filter((need) => need.name in place.has).map((need) => [need.name, place.has[need.name]]);
    return [[[`${place.path}.kind`, word(chosen.kind)], ...values.map(([name, value]) => [`${place.path}.${name}`, value])], 0, [[place.path, table([...kind, ...kept, ...values])]]];
  }
  const to = place.adding ? `${place.path}.${chosen.kind}` : place.path;
  return [[[to, table([...(chosen.kind && !place.adding ? kind : []), ...values])]]];
}

/** What a needed field is chosen from, as [value, name] pairs: its words, or the kinds of part that need nothing themselves. */
function offers(need, slots) {
  if (need.type === "choice") return need.choices.map((each) => [JSON.stringify(each), String(each)]);
  const fit = need.type === "part" ? (slots?.[need.slot]?.kinds ?? []).filter((each) => each.kind && !each.needs.length) : [];
  return fit.map((each) => [`{kind = ${JSON.stringify(each.kind)}}`, each.kind]);
}

function needs(asked, place, chosen, missing, edit) {
  const inputs = missing.map((need) => {
    const id = `need-${place.path}-${need.name}`, offered = offers(need, place.slots);
    if (offered.length) return [need, id, h("select", { id }, offered.map(([value, name]) => h("option", { value }, spaced(name))))];
    return [need, id, h("input", { id, type: "text", value: place.like?.(need.name) ?? "", required: true, autocomplete: "off" })];
  });
  const put = () => edit(...filled(place, chosen, inputs.map(([need, , input]) => [need.name, need.type === "integer" || need.type === "number" ? number(input.value, need.type) : need.type === "text" ? JSON.stringify(input.value) : input.value])));
  asked.replaceChildren(h("p", { class: "doc" }, `${spaced(chosen.kind || chosen.class)} needs`), ...inputs.map(([need, id, input]) => h("p", {}, h("label", { for: id, title: need.doc }, spaced(need.name)), input)), h("button", { type: "button", class: "main", onclick: put }, "put it in"));
  asked.addEventListener("keydown", (event) => event.key === "Enter" && event.target.tagName === "INPUT" && put());
  asked.hidden = false;
  (inputs.find(([, , input]) => !input.value) ?? inputs[0])[2].focus();
}

const INPUTS = { integer: numeric, number: numeric, boolean: bool, choice, text, part: slot, parts: several };
