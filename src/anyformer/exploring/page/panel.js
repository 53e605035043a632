// A part that is open: what it is, its formula with numbers, shapes, paper, shares, and its fields to be edited.

import { h, fill } from "./dom.js";
import { field, kinds, marked, refusal, spaced } from "./fields.js";
import { Layers } from "./layers.js";
import { pathOf } from "./question.js";
import { bytes, count, flops, percent, whole } from "./numbers.js";

const times = (text) => text.replaceAll(" x ", " × ").replace(/ - /g, " − ");

/** The panel; `open(path)` opens a part, `edit(changes)` changes values, by [path, value] pairs. */
export class Panel {
  constructor({ open, edit }) {
    this.open = open;
    this.edit = edit;
    this.slots = {};
    this.wide = false;
    this.drawn = "";
    this.layers = new Layers(edit);
    this.element = h("section", { class: "panel", id: "part", tabindex: "-1", "aria-label": "the part that is open" });
  }

  /** Show a part of a sheet; without a path its whole, with the list of its parts; `errors`: by path, what was refused;
   * `slots`: what may stand in a slot, by its name. */
  show(sheet, path, errors, slots) {
    const parts = sheet.parts, part = nearest(parts, path), own = sheet.classes[part.class];
    this.sheet = sheet;
    this.slots = slots;
    const key = JSON.stringify([part, sheet.set, errors, Object.keys(slots).length, path ? 0 : parts.map((each) => [each.path, each.parameters, each.flops])]);
    if (key === this.drawn) return;
    this.drawn = key;
    const inside = parts.filter((each) => each.parent === part.path && each !== part);
    fill(
      this.element,
      this.way(parts, part),
      h("h2", {}, part.title),
      h("p", { class: "sentence" }, ...marked(own.sentence)),
      part.path ? this.about(part) : null,
      part.path ? null : this.list("parts", parts.slice(1)),
      this.kind(part, errors),
      part.path ? shares(part, parts[0]) : null,
      this.fields(part, errors),
      part.layered ? this.layers.form(part.layered, this.sheet.set, errors) : null,
      part.path && inside.length ? this.list("parts in it", inside) : null,
      formulas(part, "parameters"),
      formulas(part, "FLOPs"),
      weights(part),
      papers(own),
      own.text && own.text !== own.sentence ? h("details", { class: "whole" }, h("summary", {}, "in full"), h("pre", {}, ...marked(own.text))) : null,
    );
  }

  /** The way from the whole to the part, as links. */
  way(parts, part) {
    const way = [];
    for (let at = part; at; at = at.path === "" ? null : parts.find((each) => each.path === at.parent && each !== at)) way.unshift(at);
    if (way[0]?.path !== "" && parts[0] !== way[0]) way.unshift(parts[0]);
    return h("nav", { class: "way", "aria-label": "where it stands" }, h("ol", {}, way.map((each, number) => {
      const name = each.path ? spaced(each.path.slice(each.path.lastIndexOf(".") + 1)) : "all";
      return h("li", {}, number === way.length - 1 ? h("span", { "aria-current": "page" }, name) : h("a", { href: "#", onclick: (event) => {
        event.preventDefault();
        this.open(each.path || null);
      } }, name));
    })));
  }

  about(part) {
    const layers = part.layers > 1 ? `in ${whole(part.layers)} layers` : "";
    return h("p", { class: "faint" }, h("code", {}, part.path), " ", [layers, ...(part.facts ?? [])].filter(Boolean).join(" · "));
  }

  /** A place of the description, with what may stand there. */
  place(path, slot, rest) {
    const part = this.sheet.parts.find((each) => each.path === path), now = part ? part.kind || part.class : null;
    const given = part?.fields.filter((each) => each.value !== null) ?? [];
    return { path, now, slot: this.slots[slot], slots: this.slots, has: Object.fromEntries(given.map((each) => [each.name, each.text])), like: (name) => likely(name, given, this.sheet.parts), ...rest };
  }

  /** Another kind in its place, where one fits. */
  kind(part, errors) {
    if ((this.slots[part.slot]?.kinds ?? []).length < 2 || !part.kind) return null;
    const id = `kind-${part.path}`, error = errors[`${part.path}.kind`];
    return h("div", { class: `field${error ? " bad" : ""}` }, h("label", { for: id }, "kind"),
      h("div", { class: "value" }, kinds(this.place(part.path, part.slot), { id, "data-key": id }, this.edit)),
      error ? refusal(error, (value) => this.edit([[`${part.path}.kind`, value]])) : null);
  }

  fields(part, errors) {
    const shown = part.fields.filter((each) => each.name !== "kind");
    if (!shown.length) return null;
    const { parts } = this.sheet;
    const rows = shown.map((each) => {
      const of = this.sheet.classes[each.class].fields[each.name];
      const inside = part.path && each.path.startsWith(`${part.path}.`) ? each.path.slice(part.path.length + 1) : each.name;
      const about = { ...of, ...each, title: inside.replaceAll(".", " · "), usual: of.default, place: this.place(each.part ?? each.path, of.slot, { optional: of.optional, text: each.text, member: (name) => memberOf(parts, part, name) }) };
      return field(about, { edit: this.edit, open: this.open, error: errors[each.path] ?? errors[`${each.path}.kind`] });
    });
    // Values that are as usual stand behind a line, which stays open where it was opened.
    // What was changed stays where it was given, also where it is as usual again.
    const given = new Set(this.sheet.set.map(pathOf));
    const said = rows.filter((_, number) => !shown[number].default || given.has(shown[number].path) || errors[shown[number].path]), others = rows.filter((row) => !said.includes(row));
    const more = others.length ? h("details", { class: "others", open: this.wide, ontoggle: (event) => (this.wide = event.target.open) }, h("summary", {}, said.length ? `${others.length} more, as usual` : `${others.length} values, all as usual`), others) : null;
    return h("div", { class: "fields", role: "group", "aria-label": `values of ${part.title}` }, said, more);
  }

  /** Parts with their shares of all parameters, as a list that opens them. */
  list(title, all) {
    const least = Math.min(...all.map((each) => each.depth));
    return h("nav", { class: "parts", "aria-label": title }, h("h3", {}, title), h("ul", {}, all.map((each) => {
      const bar = h("i", { class: "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", each.parameter_share ?? 0);
      const item = h("li", {}, h("a", { href: "#", "data-key": `list-${each.path}`, title: each.path, onclick: (event) => {
        event.preventDefault();
        this.open(each.path);
      } }, h("span", { class: "title" }, each.title, twins(all, each) ? ` ${spaced(each.path.slice(each.path.lastIndexOf(".") + 1))}` : "", each.layers > 1 ? h("small", {}, ` × ${each.layers}`) : ""),
      h("small", { class: "amount" }, each.parameters ? count(each.parameters) : "–"), bar));
      item.style.setProperty("--depth", each.depth - least);
      return item;
    })));
  }
}

/** A number that a field may well have: of the same name in the part or elsewhere, or one that follows of its heads and the width. */
function likely(name, own, parts) {
  const named = (of) => [...own, ...parts.flatMap((part) => part.fields)].find((each) => each.name === of && typeof each.value === "number")?.value;
  const width = named("width"), heads = own.find((each) => each.name === "heads")?.value, each = Number.isInteger(width / heads) ? width / heads : undefined;
  return named(name) ?? { head_width: each, key_width: each, value_width: each, channels: width, kv_heads: heads }[name];
}

/** Whether another part beside a part has the same title. */
const twins = (all, part) => all.some((each) => each !== part && each.title === part.title && each.parent === part.parent);

/** The path of a part of a set, by its name. */
function memberOf(parts, holder, name) {
  return parts.find((each) => each.parent === holder.path && each.path.endsWith(`.${name}`))?.path ?? holder.path;
}

/** The part of a path, else the nearest one around it, else the whole. */
function nearest(parts, path) {
  for (let at = path ?? ""; at; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const found = parts.find((each) => each.path === at);
    if (found) return found;
  }
  return parts[0];
}

function shares(part, all) {
  const rows = [
    ["parameters", part.parameters, part.parameter_share, count],
    ["FLOPs, forward", part.flops?.exact, part.flop_share, flops],
    ["weights", part.weight_bytes, all.weight_bytes ? part.weight_bytes / all.weight_bytes : null, bytes],
    ["decode state", part.state_bytes, all.state_bytes ? part.state_bytes / all.state_bytes : null, bytes],
  ].filter(([, value]) => value);
  if (!rows.length) return null;
  return h("table", { class: "shares" }, h("caption", { class: "unseen" }, "its share of the whole"), h("tbody", {}, rows.map(([what, value, share, say]) => {
    const bar = h("i", { class: "bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", share ?? 0);
    return h("tr", {}, h("th", { scope: "row" }, what), h("td", { class: "number", title: Number.isInteger(value) ? whole(value) : null }, say(value)),
      h("td", { class: "number faint" }, share === null ? "" : percent(share)), h("td", { class: "bars" }, bar));
  })));
}

function formulas(part, of) {
  const lines = part.formulas.filter((line) => line.of === of);
  if (!lines.length) return null;
  return h("div", { class: "formulas" }, h("h3", {}, of === "FLOPs" ? "FLOPs of a forward pass" : of),
    h("table", {}, h("tbody", {}, lines.map((line) => h("tr", {},
      h("th", { scope: "row" }, line.name || part.title),
      h("td", {}, h("span", { class: "formula" }, times(line.formula)), h("span", { class: "numbers" }, times(line.numbers)),
        line.allowed ? h("span", { class: "numbers" }, times(line.allowed)) : null),
      h("td", { class: "number" }, `= ${whole(line.value)}`, line.layers > 1 ? h("small", {}, `× ${line.layers} layers`) : null))))));
}

function weights(part) {
  if (!part.weights?.length) return null;
  return h("div", { class: "formulas" }, h("h3", {}, "weights"), h("table", {}, h("tbody", {}, part.weights.map((each) =>
    h("tr", {}, h("th", { scope: "row" }, h("code", {}, each.name)), h("td", { class: "number" }, each.shape.map(whole).join(" × ")))))));
}

function papers(part) {
  if (!part.papers?.length) return null;
  return h("p", { class: "papers" }, part.papers.map((paper, number) => [number ? "; " : "", paper.url ? h("a", { href: paper.url, rel: "noreferrer noopener", target: "_blank" }, paper.said || paper.arxiv) : paper.said]));
}
