// Two or three sheets of the static site side by side: what differs in words, in values and in costs, and their drawings in a row.

import { bytes, count, dollars, flops, whole } from "./numbers.js";

const GAP = 40, BLOCK = "Block";
const NUMBERED = ["layers", "width", "window", "experts"];
const MODES = [["train", "dollars of training on 1M tokens"], ["prefill", "dollars of reading 1M tokens"], ["decode", "dollars of writing 1M tokens"]];

/** What `/api/compare` answers, but for stairs: sheets at one call, their names, and the columns of the catalogue of each. */
export function compared(sheets, names, columns) {
  const [first, ...others] = sheets, { length } = first.call, before = sheets.some((sheet) => sheet.set.length) ? "The drawings are those before the changes. " : "";
  return {
    of: names, length, diagram: { svg: row(sheets) }, staircases: [],
    summary: rows(others.map((other, i) => between(columns[0], columns[i + 1], first.set.length + other.set.length > 0))),
    details: rows(others.map((other) => merged(differences(first, other)))),
    costs: costs(sheets),
    told: `${before}The single changes that lead from one to the next, and what each costs, are worked out by anyformer explore A B.`,
  };
}

/** A row for whatever differs somewhere, with the value of every sheet; one that is as the first has its value. */
function rows(found) {
  const named = found.map((changes) => new Map(changes.map((each) => [each.what, each])));
  return [...new Set(found.flat().map((each) => each.what))].map((what) => {
    const { left } = named.find((each) => each.has(what)).get(what);
    return { what, values: [left, ...named.map((each) => (each.has(what) ? each.get(what).right : left))] };
  });
}

/** Columns of the catalogue that differ, but for its costs; where numbers were `changed`, those that say any are left to the values. */
function between(left, right, changed) {
  const words = ({ parameters, active, chosen, experts, ...rest }) => ({ ...rest, experts: experts ? `${chosen} of ${experts}` : "none" });
  const [ours, theirs] = [words(left), words(right)].map((each) => Object.fromEntries(Object.entries(each).map(([name, value]) => [name, shown(value)])));
  return Object.keys(ours).filter((name) => ours[name] !== theirs[name] && !(changed && NUMBERED.includes(name))).map((name) => ({ what: name, left: ours[name], right: theirs[name] }));
}

/** Quantities of all, with their ratios to the first. */
function costs(sheets) {
  const tokens = (sheet) => sheet.call.batch * sheet.call.length;
  const known = [
    ["parameters", (f) => f.parameters.total, count], ["parameters that a token uses", (f) => f.parameters.active, count], ["memory of weights", (f) => f.weights.bf16, bytes],
    ["FLOPs of prefill", (f) => f.flops.forward.exact, flops], ["FLOPs of prefill per token", (f, sheet) => f.flops.forward.exact / tokens(sheet), flops],
    ["decode state", (f) => f.state?.total, bytes], ["decode state of the last token", (f) => f.state?.per_token, bytes],
    ...(sheets[0].figures.accelerators ?? []).flatMap(({ name, title }) => MODES.map(([mode, words]) => [`${words}, ${title}`, (f) => f.accelerators.find((each) => each.name === name)?.modes[mode]?.price_per_million_tokens, dollars])),
  ];
  return known.map(([what, of, say]) => [what, sheets.map((sheet) => of(sheet.figures, sheet)), say]).filter(([, values]) => values.some((value) => value)).map(([what, values, say]) => ({
    what, values: values.map((value) => (value === undefined || value === null ? "–" : say(value))), ratios: values.map((value) => (values[0] && value !== undefined && value !== null ? value / values[0] : null)),
  }));
}

/** The parts of a sheet by their paths, and those in each. */
function tree(sheet) {
  const inside = new Map();
  for (const part of sheet.parts) if (part.path !== "") inside.set(part.parent ?? "", [...(inside.get(part.parent ?? "") ?? []), part]);
  return { root: sheet.parts.find((part) => part.path === ""), inside: (part) => inside.get(part.path) ?? [] };
}

/** Every value in which two sheets differ: {place: words, last: word, left, right}. */
function differences(left, right) {
  const [ours, theirs] = [tree(left), tree(right)];
  return [...parts(ours.root, theirs.root, ours, theirs, [])];
}

const within = (part, path) => (part.path ? path.slice(part.path.length + 1) : path);
const table = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function* parts(left, right, ours, theirs, place) {
  const [mine, others] = [[left, ours], [right, theirs]].map(([part, all]) => new Map(all.inside(part).map((each) => [within(part, each.path), each])));
  const held = (name) => mine.has(name) || others.has(name);
  const fields = [left, right].map((part) => new Map(part.fields.filter((each) => each.name !== "kind").map((each) => [within(part, each.path), each])));
  for (const name of new Set([...fields[0].keys(), ...fields[1].keys()])) {
    const [here, there] = fields.map((each) => each.get(name)), of = (each) => (each === undefined ? null : each.value);
    const set = [here, there].some((each) => each && table(each.value) && Object.keys(each.value).some(held)); // its members are parts of their own
    const both = mine.has(name) && others.has(name);
    if (!set && !both && JSON.stringify(of(here)) !== JSON.stringify(of(there))) yield { place, last: name, left: shown(of(here)), right: shown(of(there)) };
  }
  const blocks = [mine, others].map((each) => [...each].filter(([, part]) => part.class === BLOCK));
  if (blocks.every((each) => each.length)) yield* layers(...blocks, ours, theirs, place);
  for (const name of new Set([...mine.keys(), ...others.keys()])) {
    const [here, there] = [mine.get(name), others.get(name)], field = fields.map((each) => each.get(name));
    if ((here ?? there).class === BLOCK && blocks.every((each) => each.length)) continue;
    if (here && there && here.class === there.class) yield* parts(here, there, ours, theirs, [...place, name]);
    else if ((here && there) || field.every((each) => each === undefined)) yield { place, last: name, left: called(here, field[0]), right: called(there, field[1]) };
  }
}

/** Differences of the kinds of layers of two stacks: each with that of its name, else with the one that differs least. */
function* layers(mine, others, ours, theirs, place) {
  const both = (here, there) => [...parts(here, there, ours, theirs, [])];
  const nearest = (part, name, among, way) => among.find(([other]) => other === name) ?? among.map((each) => [way(each[1], part).length, each]).sort(([a], [b]) => a - b)[0][1];
  const pairs = others.map(([name, part]) => [nearest(part, name, mine, both), [name, part]]);
  for (const [name, part] of mine) if (!pairs.some(([here]) => here[1] === part)) pairs.push([[name, part], nearest(part, name, others, (other, own) => both(own, other))]);
  const found = pairs.map(([here, there]) => [here[0], there[0], both(here[1], there[1])]), same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const everywhere = found[0][2].filter((each) => found.every(([, , changes]) => changes.some((other) => same(each, other))));
  yield* everywhere.map((each) => ({ ...each, place: [...place, ...each.place] }));
  for (const [here, there, changes] of found) {
    const own = changes.filter((each) => !everywhere.some((other) => same(each, other)));
    yield* own.map((each) => ({ ...each, place: [...place, others.length >= mine.length ? there : here, ...each.place] }));
  }
}

/** A part in short: as its field or itself says it, else its title. */
function called(part, field) {
  if (!part) return shown(null);
  if (typeof field?.value === "string") return field.value;
  return part.facts.find((fact) => part.kind && fact.startsWith(part.kind)) ?? part.title;
}

/** Differences in words, the same in several places once. */
function merged(found) {
  const places = new Map();
  for (const { place, last, left, right } of found) {
    const words = last.split(".").filter((word) => word !== "steps").map((word) => word.replaceAll("_", " "));
    const key = JSON.stringify([words.at(-1), left, right]);
    const named = [...place.slice(place[0] === "decoder" || place[0] === "encoder" ? 1 : 0), ...words.slice(0, -1)].join(" ").replaceAll("_", " ").replaceAll(".", " ");
    places.set(key, [...(places.get(key) ?? []), place[0] === "encoder" ? `encoder ${named}`.trim() : named]);
  }
  const lines = new Map();
  for (const [key, where] of places) {
    const [word, left, right] = JSON.parse(key), named = [...new Set(where.filter(Boolean))].join(", "), what = named ? `${word} of ${named}` : word;
    lines.set(what, { what, left, right });
  }
  return [...lines.values()];
}

function shown(value) {
  if (value === null || value === undefined) return "absent";
  if (Array.isArray(value)) return value.map(shown).join(", ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object") return Object.entries(value).map(([name, item]) => (name === "kind" ? item : `${name} ${shown(item)}`)).join(", ") || "none";
  return typeof value === "number" ? whole(value) : String(value);
}

/** Drawings in a row, on one ground. */
function row(sheets) {
  const high = Math.max(...sheets.map((sheet) => sheet.diagram.height));
  let across = 0;
  const drawings = sheets.map(({ diagram }) => {
    const placed = diagram.svg.replace("<svg ", `<svg x="${across}" y="${high - diagram.height}" `);
    across += diagram.width + GAP;
    return placed;
  });
  const wide = across - GAP;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${wide} ${high}" width="${wide}" height="${high}">${drawings.join("")}</svg>`;
}
