// The answers of the static site: sheets that were worked out before, and changes priced by formulas in the page.

import { Refused } from "./ask.js";
import { sets } from "./commands.js";
import { commands } from "./entry-link.js";

const WORDS = ["precision", "checkpointing"], MOST = 16;
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
    this.names = [...start.opened.map((each) => each.of), ...start.catalogue.map((each) => each.name)];
  }

  async sheet(words) {
    const { of, changes, call } = asked(words, this.start.defaults);
    const sheet = this.names.includes(of) ? await file(`sheets/${encodeURIComponent(of)}.json`) : null;
    if (sheet === null) throw await this.unknown(of);
    sheet.classes ??= await file("classes.json");
    for (const name of WORDS) {
      if (call[name] !== null && call[name] !== String(sheet.call[name])) throw refused(`this site prices with ${name} = ${sheet.call[name]} alone: ask \`anyformer explore\``, name);
    }
    const { rate, chosen } = this.accelerators(call, sheet.call.rate), same = (name) => call[name] === null || call[name] === sheet.call[name];
    const there = !changes.length && ["length", "batch", "source"].every(same);
    if (there && String(call.on) === String(sheet.call.on) && rate === sheet.call.rate) return sheet;
    const { evaluate } = await import("./evaluator.js");
    let figures = null;
    try {
      figures = await evaluate(sheet, changes, { ...sheet.call, ...given(call), accelerators: chosen });
    } catch (error) {
      throw error.errors ? new Refused(error.errors) : error;
    }
    const said = { ...sheet.call, ...given(call), rate }, accelerators = figures.accelerators.map((each, i) => priced(chosen[i], each, rate, there ? sheet : null));
    const forms = { ...sheet.forms, ...carried(this.file(of), changes, said) };
    if (there) return { ...sheet, forms, call: said, figures: { ...sheet.figures, accelerators }, memory: spread(sheet.memory, chosen) };
    const parts = changes.length ? withValues(sheet, changes) : sheet.parts;
    const told = changes.length ? ["Priced in this page by the declared formulas. The diagram, the parts, the masks and the memory of training are those before the changes: `anyformer explore` draws and traces them anew."] : [];
    return { ...sheet, parts, forms, set: changes.map(([path, value]) => `${path}=${value}`), call: said, figures: { ...sheet.figures, ...figures, accelerators }, warnings: [...(sheet.warnings ?? []), ...told], memory: { memory: null, why: "The memory of training is traced: this site has that of the unchanged architecture at its usual call." } };
  }

  /** Why there is no sheet of a name: of an entry that the site was written without, or of none. */
  async unknown(of) {
    const { elsewhere } = await this.searched();
    if (elsewhere.some((each) => each.name === of)) return new Refused([{ path: "", message: `${commands(of).map(([command, does]) => `\`${command}\` ${does}`).join(", ")}.`, set: null, suggestions: [], elsewhere: of }]);
    return refused(`no architecture of this site is called '${of}'`, "", null, near(of, this.names));
  }

  /** The accelerators of a call with their numbers, the last of which are dollars for an hour. */
  accelerators(call, usual) {
    const text = call.rate ?? String(usual), rate = text.trim() === "" ? NaN : Number(text), known = new Map(this.start.accelerators.map((each) => [each.name, each]));
    if (!(rate >= 0 && rate <= 1e6)) throw refused(`should be dollars for an hour of one accelerator, 0 or more, got '${text.slice(0, 40)}'`, "rate");
    const unknown = call.on.find((name) => !known.has(name));
    if (unknown !== undefined) throw refused(`no hardware is called '${unknown}'`, "on", null, near(unknown, [...known.keys()]));
    if (call.on.length > MOST) throw refused(`at most ${MOST} accelerators at a time, got ${call.on.length}`, "on");
    return { rate, chosen: call.on.map((name) => ({ ...known.get(name), numbers: [...known.get(name).numbers.slice(0, -1), rate] })) };
  }

  /** What a command is to name: of an architecture that is none of the catalogue the file that its TOML is copied to. */
  file(of) {
    return this.start.opened.find((each) => each.of === of)?.file ?? of;
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

  /** What the search knows beside the entries: words of the field, and entries that this site lacks. */
  async searched() {
    return (await file("search.json")) ?? { glossary: [], elsewhere: [] };
  }

  /** Architectures side by side, at the least of their usual lengths unless one is said. */
  async compare(words) {
    const { compared } = await import("./beside.js");
    const query = new URLSearchParams(words), names = query.getAll("of"), own = names.map(() => []), call = new URLSearchParams(words);
    for (const set of query.getAll("set")) {
      if (!/^\d:/.test(set) || own[Number(set[0])] === undefined) throw refused(`say which architecture is changed, as in set=1:PATH=VALUE, from 0; got ${set}`, "set");
      own[Number(set[0])].push(set.slice(2));
    }
    const asked = (i, more = {}) => {
      const one = new URLSearchParams([...call].filter(([name]) => name !== "of" && name !== "set"));
      for (const [name, value] of Object.entries(more)) one.set(name, value);
      return this.sheet(new URLSearchParams([["of", names[i]], ...own[i].map((set) => ["set", set]), ...one])).catch((error) => {
        throw error.errors ? new Refused(error.errors.map((each) => ({ ...each, text: `${names[i]}: ${each.text}`, message: `${names[i]}: ${each.message}`, set: null }))) : error;
      });
    };
    let sheets = await Promise.all(names.map((_, i) => asked(i)));
    const length = Math.min(...sheets.map((sheet) => sheet.call.length));
    if (sheets.some((sheet) => sheet.call.length !== length)) sheets = await Promise.all(names.map((_, i) => asked(i, { length })));
    const columns = names.map((of) => [...this.start.catalogue.map((each) => [each.name, each]), ...this.start.opened.map((each) => [each.of, each])].find(([name]) => name === of)[1].columns);
    const titles = names.map((of) => this.start.opened.find((each) => each.of === of)?.title ?? of);
    return compared(sheets, titles.map((title, i) => (own[i].length ? `${title}, changed` : title)), columns);
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

/** The forms in which changed numbers of a name or a file and the call are taken along; TOML and JSON of changes are written by
 * `anyformer show`. */
function carried(of, changes, call) {
  const said = sets(changes.map(([path, value]) => `${path}=${value}`));
  const source = call.source ? ` --source-length ${call.source}` : "", sizes = ` --length ${call.length} --batch ${call.batch}${source}`, plan = ` --precision ${call.precision} --checkpointing ${call.checkpointing}`;
  const values = changes.map(([path, value]) => `${JSON.stringify(path)}: ${value === "none" ? "None" : value}`).join(", "), on = call.on.length ? call.on : ["none"];
  const made = changes.length ? `, changes={${values}}` : "", priced = `batch=${call.batch}, length=${call.length}${call.source ? `, source_length=${call.source}` : ""}`;
  const toml = changes.length ? { toml: `# this site has no TOML of changed numbers, which this prints:\n# anyformer show ${of}${said} --toml`, json: null } : {};
  return { set: `anyformer explore ${of}${said}${sizes}${plan}${on.map((name) => ` --hardware ${name}`).join("")} --rate ${call.rate} --json`,
    cost: on.map((name) => `anyformer cost ${of}${said}${sizes}${plan}${name === "none" ? "" : ` --hardware ${name}`}`).join("\n"), ...toml,
    python: `import anyformer as af\n\narch = af.architecture(${JSON.stringify(of)}${made})\nplan = af.Plan.parse({"precision": "${call.precision}", "checkpointing": "${call.checkpointing}"})\nfor name in ${call.on.length ? JSON.stringify(call.on) : "[None]"}:\n    print(af.cost(arch, ${priced}, plan=plan, hardware=name))\nmodel = af.build(arch, device="meta")  # without values: device="cpu" takes the memory of all weights\n` };
}

/** An accelerator with its times and prices; where the `sheet` has it, with what it says of waiting too. */
function priced({ numbers, peaks, source, ...facts }, found, rate, sheet) {
  const told = sheet?.figures.accelerators.find((each) => each.name === facts.name), modes = {};
  for (const [mode, own] of Object.entries(found.modes)) {
    const known = Object.fromEntries(Object.entries(own).filter(([, value]) => value !== null));
    modes[mode] = { ...own, ...told?.modes[mode], ...known };
  }
  return { ...facts, rate, peak: numbers[1], ...found, modes };
}

/** The traced memory, by other accelerators. */
function spread(memory, chosen) {
  return memory?.memory ? { ...memory, devices: Object.fromEntries(chosen.map((each) => [each.name, Math.ceil(memory.memory.total / each.usable)])) } : memory;
}

/** The parts of a sheet with changed numbers in their fields. */
function withValues(sheet, changes) {
  const texts = new Map(changes), put = new Map(), read = (text) => (text === "none" ? null : /^-?[\d_]+$/.test(text) ? Number(text.replaceAll("_", "")) : text.startsWith("[") ? JSON.parse(text) : text.replace(/^(["'])(.*)\1$/, "$2"));
  for (const { paths } of sheet.inputs) for (const path of paths) if (texts.has(path)) for (const each of paths) put.set(each, texts.get(path));
  return sheet.parts.map((part) => ({ ...part, fields: part.fields.map((each) => (put.has(each.path) ? { ...each, value: read(put.get(each.path)), text: put.get(each.path), default: false } : each)) }));
}

function asked(words, defaults) {
  const query = new URLSearchParams(words), number = (name) => (query.get(name) ? Number(query.get(name)) : null);
  const changes = query.getAll("set").map((set) => [set.slice(0, set.indexOf("=")), set.slice(set.indexOf("=") + 1)]);
  const on = query.has("on") ? query.getAll("on").filter(Boolean) : defaults.on;
  return { of: query.get("of"), changes, call: { length: number("length"), batch: number("batch"), source: number("source"), on, ...Object.fromEntries([...WORDS, "rate"].map((name) => [name, query.get(name)])) } };
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
