// The application: asks for the answer to the question in the address, shows it, and tries changes.

import { Refused } from "./ask.js";
import { stairs } from "./commands.js";
import { fill, h, say, the } from "./dom.js";
import { absence, refusal } from "./fields.js";
import { bytes, count, flops } from "./numbers.js";
import { History, called, changed, onlyPart, pathOf, query, valueOf, without } from "./question.js";
import { SheetView, words } from "./sheet.js";
import { toast, undoable } from "./tools.js";

const AGAIN = 3000; // milliseconds until a run that goes on is asked for again
const SLOW = 120; // milliseconds after which an answer is said to be awaited

/** Set a mark behind the frame that shows what was just drawn: `benchmarks.explorer` reads it. */
const marked = (name) => requestAnimationFrame(() => setTimeout(() => performance.mark(name)));

export class App {
  constructor(from) {
    this.source = from;
    this.start = from.start;
    this.errors = {};
    this.slots = null;
    this.asking = null;
    this.view = null;
    this.edit = this.edit.bind(this);
    this.call = this.call.bind(this);
    this.openPart = this.openPart.bind(this);
    this.history = new History(this.start, (question, before) => this.show(question, before));
  }

  go(question, options) {
    this.errors = {};
    this.history.go(question, options);
  }

  openPart(path) {
    this.errors = {};
    this.history.go({ ...this.history.present, part: path || null }, { step: false });
    say(path ? `open: ${path.replaceAll(".", " ")}` : "open: the whole");
  }

  /** Change values by [path, value] pairs: asked first, so that what is refused stays a word in its field and no state of the
   * page. Changes below a slot that gets another kind are kept where the new kind has their fields; `whole`: the changes that say
   * the whole part instead, where it does not take what stands there. */
  edit(changes, number = 0, whole = null) {
    const [[path, value]] = changes, question = this.history.present;
    const ways = [changed(question, changes, number)];
    if (path.endsWith(".kind")) ways.push(changed(question, changes, number, true));
    if (whole) ways.push(changed(question, whole, number));
    return this.tried(ways, question.models.length > 1 ? `${number}:${path}` : path, value);
  }

  /** Change the call. */
  call(changes) {
    return this.tried([called(this.history.present, changes)], Object.keys(changes)[0], Object.values(changes)[0]);
  }

  /** Go to the first of several questions that is not refused; else say at `place` why the first one is. */
  async tried(ways, place, value) {
    performance.mark("changed");
    let first = null;
    for (const question of ways) {
      try {
        await this.quick(question);
        return this.go(question);
      } catch (error) {
        if (error.name === "AbortError") return undefined;
        if (!(error instanceof Refused)) throw error;
        first ??= error;
      }
    }
    this.errors = { [place]: { ...first.errors[0], tried: String(value) } };
    return this.again();
  }

  /** The answer that says whether a question can be asked. */
  quick(question) {
    if (question.models.length > 1) return this.source.compare(String(query(question, this.start.defaults)), this.fresh());
    return this.source.figures(words(question, this.start.defaults), this.fresh());
  }

  fresh() {
    this.asking?.abort();
    this.asking = new AbortController();
    return this.asking.signal;
  }

  /** What was meant instead of a word: of a name, of a value, or of a part of a path; the first that is not refused is taken. */
  async meant(error, word) {
    const question = this.history.present, number = error.set ?? null, model = question.models[0];
    const tries = [];
    if (number === null) tries.push({ ...question, models: [{ ...model, of: word }, ...question.models.slice(1)] });
    else {
      const set = model.set[number], rest = without(question, set), path = pathOf(set);
      tries.push(changed(rest, [[path, word]]));
      const steps = path.split(".");
      for (let i = steps.length; i--; ) tries.push(changed(rest, [[[...steps.slice(0, i), word, ...steps.slice(i + 1)].join("."), valueOf(set)]]));
    }
    for (const each of tries) {
      try {
        await this.quick(each);
        return this.go(each);
      } catch (refused) {
        if (!(refused instanceof Refused)) throw refused;
      }
    }
    return toast("None of the ways to read it so is taken.");
  }

  again() {
    if (this.shown) this.view.show(...this.shown);
  }

  async masks(length) {
    const question = called(this.history.present, { length: String(length) });
    try {
      return (await this.source.masks(words(question, this.start.defaults))).masks;
    } catch (error) {
      if (error instanceof Refused) toast(error.message);
      return null;
    }
  }

  /** What an architecture is called. */
  title(of) {
    return this.start.opened.find((each) => each.of === of)?.title ?? of;
  }

  forms = () => this.sheet?.forms ?? null;

  async show(question, before) {
    undoable(this.history);
    if (before && this.shown && onlyPart(question, before)) {
      this.shown[1] = question;
      return this.view.showPart(question);
    }
    const signal = this.fresh();
    const slow = setTimeout(() => document.body.classList.add("asking"), SLOW);
    try {
      await (question.view === "atlas" ? this.showAtlas(question) : question.view === "runs" ? this.showRuns(question, signal) : question.view === "study" ? this.showStudy(question, signal) : question.view === "model" ? this.showModel(question, signal) : question.models.length > 1 ? this.showCompare(question, signal) : this.showSheet(question, signal));
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      if (!(error instanceof Refused)) throw error;
      this.refused(error, question);
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) document.body.classList.remove("asking");
    }
    return undefined;
  }

  /** The view of a kind: the one that is there, or a new one, which comes into the page with its first answer. */
  take(Kind) {
    if (!(this.view instanceof Kind)) this.view = new Kind(this);
    return this.view;
  }

  draw(view, ...answer) {
    this.shown = answer;
    if (!view.element.isConnected) fill(the("#main"), view.element);
    view.show(...answer);
  }

  async showSheet(question, signal) {
    const asked = words(question, this.start.defaults), model = question.models[0];
    if (!model) return this.empty();
    const view = this.take(SheetView);
    const bare = model.set.length ? words({ ...question, models: [{ of: model.of, set: [] }] }, this.start.defaults) : null;
    let base = null;
    if (this.sheet?.of === model.of && view.element.isConnected) {
      const quick = await this.source.figures(asked, signal);
      base = bare && this.base?.[0] === bare ? this.base[1] : null;
      view.showFigures(quick, base);
      marked("answered");
      view.showMemory(null, quick.figures, quick.call);
    }
    this.sheet = await this.source.sheet(asked, signal);
    if (bare !== null && base === null) {
      base = (await this.source.figures(bare, signal)).figures;
      this.base = [bare, base];
    }
    // Another part may have been opened meanwhile, which asks nothing.
    this.draw(view, this.sheet, this.history.present, base);
    this.slots ??= await this.source.kinds();
    view.showPart(this.history.present);
    document.title = `${this.title(this.sheet.of)} · anyformer`;
    this.told(this.sheet.figures);
    marked("drawn");
    this.traced(view, asked, signal);
    return undefined;
  }

  /** Memory of training, which is traced and so comes later. */
  async traced(view, asked, signal) {
    const { figures, call } = this.sheet;
    if (this.sheet.memory === undefined) view.showMemory(null, figures, call);
    try {
      view.showMemory(this.sheet.memory ?? (await this.source.memory(asked, signal)), figures, call);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Refused)) throw error;
      view.showMemory({ error: error.message }, figures, call);
    }
    marked("traced");
  }

  told(figures) {
    say(`${count(figures.parameters.total)} parameters, ${flops(figures.flops.per_token.forward)} per token${figures.state ? `, decode state ${bytes(figures.state.per_token)} per token` : ""}`);
  }

  async showCompare(question, signal) {
    const { CompareView } = await import("./compare.js");
    const view = this.take(CompareView);
    const answer = await this.source.compare(String(query(question, this.start.defaults)), signal);
    this.sheet = { forms: { set: stairs(question, answer.length, (of) => this.start.opened.find((each) => each.of === of)?.file ?? of) } };
    this.draw(view, answer, question);
    document.title = `${answer.of.join(" beside ")} · anyformer`;
    say(`${answer.details.length} values differ`);
  }

  /** Runs, asked for again while one of them goes on. */
  async showRuns(question, signal) {
    const { RunsView } = await import("./runs.js");
    const view = this.take(RunsView);
    const asked = String(new URLSearchParams(question.runs.map((run) => ["run", run])));
    this.sheet = null;
    document.title = "runs · anyformer";
    for (;;) {
      const answer = await this.source.runs(asked, signal);
      this.draw(view, answer, question);
      document.body.classList.remove("asking");
      if (!answer.runs.some((run) => run.state.startsWith("running"))) return;
      await new Promise((done) => setTimeout(done, AGAIN));
      signal.throwIfAborted();
    }
  }

  async showStudy(question, signal) {
    const { StudyView } = await import("./study.js");
    const view = this.take(StudyView);
    this.sheet = null;
    this.draw(view, await this.source.study(String(new URLSearchParams({ study: question.study })), signal), question);
    document.title = "study · anyformer";
  }

  /** A model opened by a text. */
  async showModel(question, signal) {
    const { ModelView, answered } = await import("./model.js");
    const view = this.take(ModelView), kind = this.start.opened.find((each) => each.of === question.of)?.kind;
    this.sheet = null;
    document.title = `${this.title(question.of)}, opened · anyformer`;
    this.draw(view, await answered(this.source, question, kind, signal), question);
  }

  /** The catalogue as a whole, by words of the address behind #atlas. */
  async showAtlas(question) {
    const [{ show }, { entriesHere }] = await Promise.all([import("./atlas.js"), import("./entry-link.js")]);
    const place = h("div", { class: "atlas" });
    this.view = this.shown = this.sheet = null;
    fill(the("#main"), place);
    document.title = "atlas · anyformer";
    entriesHere(this.start.static ? this.start.catalogue.map((each) => each.name) : null);
    await show(place, question.atlas, this.start.static);
  }

  empty() {
    fill(the("#main"), h("p", { class: "waiting" }, "Choose an architecture: press / and say its name."));
  }

  /** An address that cannot be answered: what is wrong, what may have been meant, and the way on. */
  refused(error, question) {
    this.view = null;
    this.shown = null;
    const [first] = error.errors;
    if (first.elsewhere) return fill(the("#main"), absence(first));
    const set = first.set === null || first.set === undefined ? null : question.models[0]?.set[first.set];
    return fill(the("#main"), h("div", { class: "wrong" }, h("h1", {}, "This cannot be shown"), first.path ? h("p", {}, h("code", {}, first.path)) : null, refusal(first, (meant) => this.meant(first, meant)),
      set ? h("p", {}, h("button", { type: "button", onclick: () => this.go(without(question, set)) }, `without ${set}`)) : null,
      this.history.canUndo ? h("p", {}, h("button", { type: "button", onclick: () => this.history.undo() }, "undo")) : null));
  }

  /** The next part in the order of the description. */
  step(way) {
    const parts = this.sheet?.parts ?? [];
    const at = parts.findIndex((part) => part.path === (this.history.present.part ?? ""));
    const next = parts[Math.max(at, 0) + way];
    if (next) this.openPart(next.path);
  }
}
