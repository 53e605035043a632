// The answers of the static site: sheets that were worked out before, and changes priced by formulas in the page.

import { Refused } from "./ask.js";

const WORDS = ["precision", "checkpointing", "rate"];
const files = new Map();

function file(address) {
  if (!files.has(address)) {
    const read = fetch(address).then((answer) => (answer.ok ? answer.json() : null));
    files.set(address, read);
    read.catch(() => files.delete(address));
  }
  return files.get(address);
}

const refused = (message, path = "", set = null, suggestions = []) => new Refused([{ path, message, set, suggestions, text: message }]);

class Site {
  constructor(start) {
    this.start = start;
  }

  async sheet(words) {
    const { of, changes, call } = asked(words, this.start.defaults);
    const sheet = await file(`sheets/${encodeURIComponent(of)}.json`);
    if (sheet === null) throw refused(`no architecture of this site is called '${of}'`, "", null, near(of, this.start.catalogue.map((each) => each.name)));
    sheet.classes ??= await file("classes.json");
    for (const name of WORDS) {
      if (call[name] !== null && call[name] !== String(sheet.call[name])) throw refused(`this site prices with ${name} = ${sheet.call[name]} alone: ask \`anyformer explore\``, name);
    }
    const usual = ["length", "batch", "source"].every((name) => call[name] === null || call[name] === sheet.call[name]) && String(call.on) === String(sheet.call.on);
    if (!changes.length && usual) return sheet;
    const { evaluate } = await import("./evaluator.js");
    let figures = null;
    try {
      figures = await evaluate(sheet, changes, { ...sheet.call, ...given(call) });
    } catch (error) {
      throw error.errors ? new Refused(error.errors) : error;
    }
    const times = String(call.on) === String(sheet.call.on) ? (figures.accelerators ?? []).filter((each) => each.name) : [];
    const forms = { ...sheet.forms, ...carried(of, changes, { ...sheet.call, ...given(call) }) };
    const told = changes.length ? ["Priced in this page by the declared formulas. The diagram, the parts, the masks and the memory of training are those before the changes: `anyformer explore` draws and traces them anew."] : [];
    return { ...sheet, forms, set: changes.map(([path, value]) => `${path}=${value}`), call: { ...sheet.call, ...given(call) }, figures: { ...sheet.figures, ...figures, accelerators: times }, warnings: [...(sheet.warnings ?? []), ...told], memory: { memory: null, why: "The memory of training is traced: this site has that of the unchanged architecture at its usual call." } };
  }

  figures(words) {
    return this.sheet(words);
  }

  async masks(words) {
    const sheet = await this.sheet(words);
    return { masks: sheet.masks };
  }

  async memory(words) {
    return (await this.sheet(words)).memory ?? { memory: null, why: "The memory of training was not traced." };
  }

  async kinds() {
    return (await file("kinds.json")) ?? {};
  }

  async compare() {
    throw refused("This site shows one architecture at a time: `anyformer explore A B` shows them side by side.");
  }

  async model() {
    throw refused("This site has no models: `anyformer explore DIRECTORY` opens one.");
  }

  async study() {
    throw refused("This site has no studies: `anyformer explore STUDY` shows them.");
  }

  async runs() {
    throw refused("This site has no runs: `anyformer explore RUN` shows them.");
  }
}

/** The forms in which changed numbers and the call are taken along; TOML and JSON of changes are written by `anyformer show`. */
function carried(of, changes, call) {
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text}'`), sets = changes.map(([path, value]) => ` --set ${quoted(`${path}=${value}`)}`).join("");
  const source = call.source ? ` --source-length ${call.source}` : "", sizes = ` --length ${call.length} --batch ${call.batch}${source}`, plan = ` --precision ${call.precision} --checkpointing ${call.checkpointing}`;
  const values = changes.map(([path, value]) => `${JSON.stringify(path)}: ${value}`).join(", "), on = call.on.length ? call.on : ["none"];
  const made = changes.length ? `, changes={${values}}` : "", priced = `batch=${call.batch}, length=${call.length}${call.source ? `, source_length=${call.source}` : ""}`;
  const toml = changes.length ? { toml: `# this site has no TOML of changed numbers, which this prints:\n# anyformer show ${of}${sets} --toml`, json: null } : {};
  return { set: `anyformer explore ${of}${sets}${sizes}${plan}${on.map((name) => ` --hardware ${name}`).join("")} --rate ${call.rate} --json`,
    cost: on.map((name) => `anyformer cost ${of}${sets}${sizes}${plan}${name === "none" ? "" : ` --hardware ${name}`}`).join("\n"), ...toml,
    python: `import anyformer as af\n\narch = af.architecture(${JSON.stringify(of)}${made})\nplan = af.Plan.parse({"precision": "${call.precision}", "checkpointing": "${call.checkpointing}"})\nfor name in ${call.on.length ? JSON.stringify(call.on) : "[None]"}:\n    print(af.cost(arch, ${priced}, plan=plan, hardware=name))\nmodel = af.build(arch)\n` };
}

function asked(words, defaults) {
  const query = new URLSearchParams(words), number = (name) => (query.get(name) ? Number(query.get(name)) : null);
  const changes = query.getAll("set").map((set) => [set.slice(0, set.indexOf("=")), set.slice(set.indexOf("=") + 1)]);
  const on = query.has("on") ? query.getAll("on").filter(Boolean) : defaults.on;
  return { of: query.get("of"), changes, call: { length: number("length"), batch: number("batch"), source: number("source"), on, ...Object.fromEntries(WORDS.map((name) => [name, query.get(name)])) } };
}

const given = (call) => Object.fromEntries(Object.entries(call).filter(([, value]) => value !== null));

/** Names that have most pairs of letters in common with a word. */
function near(word, names) {
  const pairs = (text) => new Set([...text].slice(1).map((letter, at) => text[at] + letter));
  const own = pairs(word);
  const scored = names.map((name) => [[...pairs(name)].filter((pair) => own.has(pair)).length / Math.max(own.size, name.length - 1), name]);
  return scored.filter(([score]) => score > 0.5).sort(([a], [b]) => b - a).slice(0, 3).map(([, name]) => name);
}

/** The site whose files lie beside this page. */
export async function open() {
  const start = await file("start.json");
  if (start === null) throw refused("start.json is not beside this page: the site is incomplete, write it anew with `anyformer atlas --out DIRECTORY`.");
  return new Site(start);
}
