// Prices changes without a server: evaluates the expressions that were generated from the declared formulas.
//
// Whole numbers are BigInt, so that every figure is exact whatever its size; quotients are Numbers, rounded as Python rounds
// them. A program is a list of nodes, each an operation on earlier ones, and pieces of figures with the guards under which they
// hold: where a guard fails the piece is left out, and without the first piece there is no answer.

import { numbered } from "./numbered.js";

const FORMAT = 1;
const CALL = ["batch", "length", "source"];
const LONGEST = 2n ** 50n;
const LARGEST = 2n ** 31n - 1n;
const ASK = "ask `anyformer explore`";

const whole = (x) => typeof x === "bigint";

function floorDivided(x, y) {
  const quotient = x / y;
  return x % y !== 0n && x < 0n !== y < 0n ? quotient - 1n : quotient;
}

function rest(x, y) {
  const left = x % y;
  return left !== 0n && left < 0n !== y < 0n ? left + y : left;
}

function floatDivided(x, y) {
  if (y === 0) return null;
  const left = x % y;
  const quotient = (x - left) / y - (left !== 0 && left < 0 !== y < 0 ? 1 : 0);
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

function floatRest(x, y) {
  if (y === 0) return null;
  const left = x % y;
  return left !== 0 && left < 0 !== y < 0 ? left + y : left;
}

const bits = (x) => (x === 0n ? 0 : (x < 0n ? -x : x).toString(2).length);

// x / y of whole numbers, rounded once to the nearest double: Number(x) / Number(y) would round three times.
function quotient(x, y) {
  if (y === 0n) return null;
  const negative = x < 0n !== y < 0n;
  const above = x < 0n ? -x : x;
  const below = y < 0n ? -y : y;
  const shift = Math.max(0, 66 - bits(above) + bits(below));
  const scaled = above << BigInt(shift);
  const sticky = scaled % below === 0n ? 0n : 1n;
  const value = Number(((scaled / below) << 1n) | sticky) / 2 ** (shift + 1);
  return negative ? -value : value;
}

function roundedToEven(x) {
  const floor = Math.floor(x);
  const over = x - floor;
  return BigInt(over < 0.5 || (over === 0.5 && floor % 2 === 0) ? floor : floor + 1);
}

// An operation of Python: of whole numbers if all operands are, else of doubles.
const ofBoth = (ofWhole, ofFloats) => (x, y) => (whole(x) && whole(y) ? ofWhole(x, y) : ofFloats(Number(x), Number(y)));

const OPERATORS = {
  "+": ofBoth((x, y) => x + y, (x, y) => x + y),
  "-": ofBoth((x, y) => x - y, (x, y) => x - y),
  "*": ofBoth((x, y) => x * y, (x, y) => x * y),
  "//": ofBoth((x, y) => (y === 0n ? null : floorDivided(x, y)), floatDivided),
  "%": ofBoth((x, y) => (y === 0n ? null : rest(x, y)), floatRest),
  "/": ofBoth(quotient, (x, y) => (y === 0 ? null : x / y)),
  "**": ofBoth((x, y) => (y < 0n ? Number(x) ** Number(y) : x ** y), (x, y) => x ** y),
  min: (x, y) => (y < x ? y : x),
  max: (x, y) => (y > x ? y : x),
  "<": (x, y) => x < y,
  "==": (x, y) => x == y, // a whole number may equal a double
  abs: (x) => (x < 0 ? -x : x),
  floor: (x) => (whole(x) ? x : BigInt(Math.floor(x))), // all Numbers here are finite
  round: (x) => (whole(x) ? x : roundedToEven(x)),
  bits: (x) => BigInt(bits(x)),
};

// The value of every node; null of what has none, and of all that is made of it.
function valuesOf(nodes, inputs) {
  const values = new Array(nodes.length);
  for (let i = 0; i < nodes.length; i++) {
    const [operator, first, second] = nodes[i];
    if (operator === "take") values[i] = inputs[first] ?? null;
    else if (operator === "int") values[i] = BigInt(first);
    else if (operator === "float") values[i] = first;
    else {
      const x = values[first];
      const y = second === undefined ? undefined : values[second];
      const value = x === null || y === null ? null : OPERATORS[operator](x, y);
      values[i] = typeof value === "number" && !Number.isFinite(value) ? null : value; // where Python has an error
    }
  }
  return values;
}

const truth = (value) => (whole(value) ? value !== 0n : Boolean(value));
const fails = (values) => ([node, holds]) => values[node] === null || truth(values[node]) !== Boolean(holds);

function filled(figures, values) {
  if (Array.isArray(figures)) return figures.map((item) => filled(item, values));
  if (figures === null || typeof figures !== "object") return figures;
  if ("=" in figures) return values[figures["="]];
  return Object.fromEntries(Object.entries(figures).map(([name, item]) => [name, filled(item, values)]));
}

function merged(left, right) {
  const table = (x) => x !== null && typeof x === "object" && !Array.isArray(x);
  if (table(left) && table(right)) {
    const both = { ...left };
    for (const [name, item] of Object.entries(right)) both[name] = name in left ? merged(left[name], item) : item;
    return both;
  }
  const lists = Array.isArray(left) && Array.isArray(right) && left.length === right.length;
  return lists ? left.map((item, i) => merged(item, right[i])) : right;
}

// Figures of a program at its inputs (BigInt): {figures, failed}; `failed` is the first guard that does not hold, or null.
function priced(program, inputs) {
  const values = valuesOf(program.nodes, inputs);
  const [first, ...more] = program.pieces;
  const failed = first.guards.find(fails(values)) ?? null;
  if (failed !== null) return { figures: null, failed };
  const figures = more
    .filter((piece) => !piece.guards.some(fails(values)))
    .reduce((sum, piece) => merged(sum, filled(piece.figures, values)), filled(first.figures, values));
  return { figures, failed: null };
}

// The inputs with what absent ones are, which may be other absent ones: {inputs, failed}.
function completed({ nodes, absent = {} }, inputs) {
  const now = [...inputs];
  const empty = Object.keys(absent).map(Number).filter((at) => inputs[at] === null);
  if (!empty.length) return { inputs, failed: null };
  const read = Object.values(absent).flatMap(([node, guards]) => [node, ...guards.map(([at]) => at)]);
  const first = nodes.slice(0, Math.max(...read) + 1);
  for (const _ of empty) {
    const values = valuesOf(first, now);
    for (const at of empty) now[at] = values[absent[at][0]];
  }
  const fail = fails(valuesOf(first, now));
  return { inputs: now, failed: empty.flatMap((at) => absent[at][1]).find(fail) ?? null };
}

// Figures with Numbers alone.
function shown(figures) {
  if (whole(figures)) return Number(figures);
  if (Array.isArray(figures)) return figures.map(shown);
  if (figures === null || typeof figures !== "object") return figures;
  return Object.fromEntries(Object.entries(figures).map(([name, item]) => [name, shown(item)]));
}

const ORDER_NUMBER = /\*\s*(\d+)/g;
const withoutNumbers = (order) => order.replace(ORDER_NUMBER, "*#").replace(/\s+/g, " ").trim();

// The numbers in the text of a value, in order; null where it differs from `now`, what stands there, in more than numbers.
function numbersIn(text, now) {
  const bare = text.trim().replace(/^(["'])(.*)\1$/, "$2");
  if (typeof now === "string") {
    const same = withoutNumbers(bare) === withoutNumbers(now);
    return same ? [...bare.matchAll(ORDER_NUMBER)].map((found) => BigInt(found[1])) : null;
  }
  const items = Array.isArray(now) ? bare.replace(/^\[(.*?),?\s*\]$/, "$1").split(",") : [bare];
  const numbers = items.map((item) => item.trim().replace(/(?<=\d)_(?=\d)/g, ""));
  return numbers.every((item) => /^[+-]?\d+$/.test(item)) && (!Array.isArray(now) || items.length === now.length)
    ? numbers.map((item) => BigInt(item.replace(/^\+/, "")))
    : null;
}

// The text of a node, of inputs by the last word of their paths; "" where it is long.
function textOf(nodes, names, at, depth = 0) {
  const [operator, ...operands] = nodes[at];
  if (operator === "take") return names[operands[0]];
  if (operator === "int" || operator === "float") return String(operands[0]);
  const parts = operands.map((each) => (depth < 2 ? textOf(nodes, names, each, depth + 1) : ""));
  if (parts.some((part) => part === "" || part.length > 60)) return "";
  if (parts.length === 1 || operator === "min" || operator === "max") return `${operator}(${parts.join(", ")})`;
  const text = parts.join(` ${operator} `);
  return depth ? `(${text})` : text;
}

const programs = new Map();

async function file(address) {
  const answer = await fetch(address);
  if (!answer.ok) throw { errors: [problem("", `${address} is not there, status ${answer.status}: the site is incomplete`)] };
  return answer.json();
}

// Figures of a sheet's architecture after changes, [[path, text], ...] as `--set` has them, at a call {length, batch, source,
// accelerators: [{numbers}]}; throws {errors: [...]} in words. Whole numbers are given as Numbers, exact up to 2^53; null is what cannot be priced here.
export async function evaluate(sheet, changes, call) {
  return shown(await exactly(sheet, changes, call));
}

// The same with whole numbers as BigInt. `read`: address -> parsed JSON.
export async function exactly(sheet, changes, call = {}, read = file) {
  if (!sheet.program) throw { errors: [problem("", `changes of this architecture are not priced in this page: ${ASK}`)] };
  if (!programs.has(sheet.program)) programs.set(sheet.program, read(sheet.program));
  const program = await programs.get(sheet.program).catch((error) => {
    programs.delete(sheet.program);
    throw error;
  });
  if (program.format !== FORMAT) throw { errors: [problem("", `a program of format ${program.format}: this page reads ${FORMAT}`)] };
  const errors = [];
  const inputs = ofCall(sheet, call, errors);
  for (const place of sheet.inputs) put(place, place.now, inputs);
  const places = new Map(sheet.inputs.flatMap((place) => place.paths.map((path) => [path, place])));
  for (const { path, number, message = null, ...given } of numbered(changes, sheet.inputs)) {
    const wrong = message ?? changed(places.get(path), given, inputs);
    if (wrong) errors.push(problem(changes[number][0], wrong, number));
  }
  if (errors.length) throw { errors };
  const asked = call.accelerators ?? [];
  const found = (asked.length ? asked : [{ numbers: [] }]).map(({ numbers }) => {
    numbers.forEach((number, k) => (inputs[CALL.length + k] = number));
    const given = completed(program, inputs);
    const { figures, failed } = given.failed === null ? priced(program, given.inputs) : given;
    if (failed !== null) throw { errors: [beyond(sheet, program, failed, changes)] };
    return figures;
  });
  return { ...found[0], accelerators: asked.map((_, i) => found[i].accelerators?.[0] ?? { modes: {} }) };
}

// The numbers of a call, the first inputs; what is wrong with them is added to `errors`.
function ofCall(sheet, call, errors) {
  const length = call.length ?? sheet.call.length;
  const numbers = { batch: call.batch ?? sheet.call.batch, length, source: call.source || length };
  return CALL.map((name) => {
    const most = name === "batch" ? LARGEST : LONGEST;
    const good = Number.isSafeInteger(numbers[name]) && numbers[name] >= 1 && BigInt(numbers[name]) <= most;
    if (!good) errors.push(problem(name, `should be a whole number from 1 to ${most}, got ${numbers[name]}`));
    return good ? BigInt(numbers[name]) : 1n;
  });
}

const put = (place, value, inputs) => {
  if (value === null) return place.at.forEach((at) => (inputs[at] = null));
  const numbers = numbersIn(Array.isArray(value) ? `[${value}]` : String(value), place.now);
  return place.at.forEach((at, k) => (inputs[at] = numbers[k]));
};

// Puts the numbers of a change among the inputs, or says what is wrong with it.
function changed(place, { text, absent = false }, inputs) {
  if (place === undefined) return `is no number that is priced in this page: ${ASK}`;
  if (absent || (place.optional && text.trim() === "none")) return put(place, null, inputs) ?? null;
  const given = numbersIn(text, place.now);
  if (given === null && place.now === null) return `should be a whole number, or none, got ${text}`;
  if (given === null) return `changes more than the numbers of ${JSON.stringify(place.now)}, and only those are priced in this page: ${ASK}`;
  const bad = given.find((value) => value < BigInt(place.least) || value > BigInt(place.greatest) || value % BigInt(place.step) !== 0n);
  if (bad !== undefined) {
    const step = place.step > 1 ? `, a multiple of ${place.step}` : "";
    return `should be a whole number from ${place.least} to ${place.greatest}${step}, got ${bad}`;
  }
  place.at.forEach((at, k) => (inputs[at] = given[k]));
  return null;
}

// Why there is no answer: the condition that no longer holds, where it is short.
function beyond(sheet, program, [node, holds], changes) {
  const names = [...CALL];
  for (const place of sheet.inputs) for (const at of place.at) names[at] = (place.paths[0] ?? "").split(".").slice(-2).join(".");
  const text = textOf(program.nodes, names, node);
  const condition = text ? ` (its formulas hold while ${holds ? text : `not ${text}`})` : "";
  const alone = changes.length === 1;
  return problem(alone ? changes[0][0] : "", `leaves the table of this page${condition}, so it is refused or priced otherwise: ${ASK}`, alone ? 0 : null);
}

function problem(path, message, set = null) {
  return { path, message, set, suggestions: [], text: path ? `${path}: ${message}` : message };
}
