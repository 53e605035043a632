// Links to entries of the catalogue, of which a static site has a few.

import { h } from "./dom.js";

let here = null;

/** Tell which entries have a sheet, by name; null: all. */
export function entriesHere(names) {
  here = names === null ? null : new Set(names);
}

/** The commands for an entry that is not in this site, and what they do. */
export const commands = (name) => [[`anyformer explore ${name}`, "opens it"], [`anyformer atlas --out DIRECTORY --entry ${name}`, "writes a site that has it: add an `--entry` for every other one"]];

/** A link to an entry with some changes, or its words alone where this site has no sheet of it. */
export function entryLink(name, said = name, title = null, set = []) {
  if (here !== null && !here.has(name)) {
    const changed = set.map((each) => ` --set '${each}'`).join("");
    return h("span", { title: `not in this site: anyformer explore ${name}${changed}`, class: "elsewhere" }, said);
  }
  return h("a", { href: `#of=${encodeURIComponent(name)}${set.map((each) => `&set=${encodeURIComponent(each)}`).join("")}`, title }, said);
}
