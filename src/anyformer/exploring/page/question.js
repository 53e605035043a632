// What the page shows, as a value: one to three architectures with their changes, the call that is priced, the part that is open.
// It stands in the address behind #, so that an address shares it and the browser's history is undo and redo.

import { parsed } from "./numbers.js";

const COUNTED = ["length", "batch", "source"];
const CALL = [...COUNTED, "precision", "checkpointing", "rate"];
const MOST = 3;
const ASKED = ["text", "against", "wanted", "other", "position"];

/** The question of an address: #of=gpt2&set=PATH=VALUE&length=8k&on=h100&part=PATH; behind two `of`, `set` begins with a number. */
export function read(hash, defaults) {
  if (hash.startsWith("#atlas")) return { view: "atlas", atlas: hash.split("/").slice(1), models: [], call: { ...defaults, on: defaults.on ?? [] }, part: null, runs: [], study: null };
  const words = new URLSearchParams(hash.replace(/^#/, ""));
  const named = words.getAll("of").slice(0, MOST);
  const models = (named.length ? named : defaults.of ? [defaults.of] : []).map((of) => ({ of, set: [] }));
  for (const said of words.getAll("set")) {
    // Without a number it is a change of all of them.
    const found = /^(\d):(.*)$/s.exec(said);
    if (!found) for (const model of models) model.set.push(said);
    else models[Number(found[1])]?.set.push(found[2]);
  }
  const call = Object.fromEntries(CALL.map((name) => [name, words.get(name) ?? defaults[name] ?? ""]));
  const on = words.getAll("on").filter(Boolean);
  return {
    view: words.has("model") ? "model" : words.has("run") ? "runs" : words.has("study") ? "study" : "sheet",
    models,
    call: { ...call, on: words.has("on") ? on : (defaults.on ?? []) },
    part: words.get("part"),
    runs: words.getAll("run"),
    study: words.get("study"),
    of: words.get("model"),
    ...Object.fromEntries(ASKED.map((name) => [name, words.get(name) ?? ""])),
  };
}

/** The words of a question that its defaults do not say, for an address. */
export function written(question, defaults) {
  if (question.view === "atlas") return ["#atlas", ...question.atlas].join("/");
  if (question.view === "model") return `#${new URLSearchParams([["model", question.of], ...ASKED.filter((name) => question[name]).map((name) => [name, question[name]])])}`;
  if (question.view === "runs") return `#${new URLSearchParams(question.runs.map((run) => ["run", run]))}`;
  if (question.view === "study") return `#${new URLSearchParams({ study: question.study })}`;
  const words = query(question, defaults);
  if (question.part) words.set("part", question.part);
  return `#${words}`;
}

/** What is asked of the text of a model, for the server: all but the text has a default. */
export const ofText = (question) => Object.fromEntries(["of", ...ASKED].filter((name) => question[name]).map((name) => [name, question[name]]));

/** The words of a question for the server. */
export function query(question, defaults = {}, models = question.models) {
  const words = new URLSearchParams();
  for (const model of models) words.append("of", model.of);
  models.forEach((model, number) => {
    for (const set of model.set) words.append("set", models.length > 1 ? `${number}:${set}` : set);
  });
  for (const name of CALL) {
    const said = question.call[name] ?? "", value = COUNTED.includes(name) && said !== "" ? (parsed(String(said)) ?? said) : said;
    if (value !== "" && String(value) !== String(defaults[name])) words.set(name, value);
  }
  if (String(question.call.on) !== String(defaults.on)) for (const name of question.call.on.length ? question.call.on : [""]) words.append("on", name);
  return words;
}

/** `decoder.layer.attention.heads` of `decoder.layer.attention.heads=16`. */
export const pathOf = (set) => set.slice(0, set.indexOf("="));
export const valueOf = (set) => set.slice(set.indexOf("=") + 1);

/**
 * The question with more changes of an architecture, as [path, value] pairs; a later change of a path takes the place of an
 * earlier one. `clear`: changes below a slot that is filled anew go with what stood there.
 */
export function changed(question, changes, number = 0, clear = false) {
  const models = question.models.map((model, i) => {
    if (i !== number) return model;
    const gone = (set) => changes.some(([path, value]) => pathOf(set) === path || ((clear || value === "none" || value.startsWith("{")) && pathOf(set).startsWith(`${path.replace(/\.kind$/, "")}.`)));
    return { ...model, set: [...model.set.filter((set) => !gone(set)), ...changes.map(([path, value]) => `${path}=${value}`)] };
  });
  return { ...question, models };
}

/** The question without a change, what is changed below it, and where it is a copy under a name of its own, the orders that have this name. */
export function without(question, set, number = 0) {
  const path = pathOf(set), above = path.slice(0, path.lastIndexOf(".") + 1), name = path.slice(above.length), copied = /^"?[a-z][a-z0-9_]*"?$/.test(valueOf(set));
  const named = (other) => copied && pathOf(other).slice(0, pathOf(other).lastIndexOf(".") + 1) === above && new RegExp(`\\b${name}\\b`).test(valueOf(other));
  const gone = (other) => other === set || pathOf(other).startsWith(`${path}.`) || named(other);
  const models = question.models.map((model, i) => (i === number ? { ...model, set: model.set.filter((each) => !gone(each)) } : model));
  return { ...question, models };
}

/** The question with another call: called(question, {length: "8k"}). */
export const called = (question, call) => ({ ...question, call: { ...question.call, ...call } });

/** Whether a question differs from another in the part alone that is open. */
export function onlyPart(question, before) {
  const bare = (each) => JSON.stringify({ ...each, part: null });
  return bare(question) === bare(before) && question.part !== before.part;
}

/** One more architecture beside those shown, of three at most. */
export function beside(question, of) {
  const models = [...question.models, { of, set: [] }].slice(-MOST);
  return alone(question, models);
}

/** The question with its architectures the other way round, each with its changes. */
export const swapped = (question) => ({ ...question, models: question.models.toReversed() });

/** The question about some architectures, and no run. */
export function alone(question, models) {
  return { ...question, models, view: "sheet", part: null, runs: [], study: null };
}

/** What the program opens a page with: runs among the names are shown as runs, a study as a study. */
export function opening(search, opened) {
  const words = new URLSearchParams(search), kinds = new Map(opened.map((each) => [each.of, each.kind])), of = words.getAll("of");
  const runs = of.filter((name) => kinds.get(name) === "run"), study = of.find((name) => kinds.get(name) === "study");
  if (runs.length) return `#${new URLSearchParams(runs.map((run) => ["run", run]))}`;
  return study ? `#${new URLSearchParams({ study })}` : `#${words}`;
}

/**
 * The history of questions, kept by the browser: a change is a step that `undo` and the browser's Back take back.
 * `show(question)` is called for every question that becomes the present one.
 */
export class History {
  constructor({ defaults, opened }, show) {
    this.defaults = defaults;
    this.show = show;
    this.last = history.state?.last ?? 0;
    this.at = history.state?.at ?? 0;
    // The program opens the page with a query; from then on the question stands behind #.
    this.present = read(location.hash || opening(location.search, opened), defaults);
    history.replaceState({ at: this.at, last: this.last }, "", location.pathname + (location.hash || written(this.present, defaults)));
    // A link of the page to another hash is a step too; what the browser goes back to has its number.
    addEventListener("popstate", (event) => {
      if (event.state === null) {
        this.at += 1;
        this.last = this.at;
        history.replaceState({ at: this.at, last: this.last }, "", location.href);
        return this.take(read(location.hash, this.defaults));
      }
      return this.moved(event);
    });
  }

  moved(event) {
    this.at = event.state.at;
    this.last = Math.max(this.last, event.state.last ?? 0);
    this.take(read(location.hash, this.defaults));
  }

  /** Make a question the present one; `step: false` for what needs no undoing, such as opening a part. */
  go(question, { step = true } = {}) {
    const hash = written(question, this.defaults);
    if (hash === location.hash) return;
    if (step) {
      this.at += 1;
      this.last = this.at;
      history.pushState({ at: this.at, last: this.last }, "", hash);
    } else history.replaceState({ at: this.at, last: this.last }, "", hash);
    this.take(question);
  }

  take(question) {
    const before = this.present;
    this.present = question;
    this.show(question, before);
  }

  get canUndo() {
    return this.at > 0;
  }

  get canRedo() {
    return this.at < this.last;
  }

  undo() {
    if (this.canUndo) history.back();
  }

  redo() {
    if (this.canRedo) history.forward();
  }
}
