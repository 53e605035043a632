// Two or three architectures side by side: what differs in the diagram, the staircase of single changes between them and what
// each step costs, every value that differs, to be edited where it stands.

import { Call } from "./call.js";
import { Diagram } from "./diagram.js";
import { fill, h } from "./dom.js";
import { refusal } from "./fields.js";
import { bytes, change, count, flops, whole } from "./numbers.js";
import { pathOf, valueOf, without } from "./question.js";

const COSTS = [["parameters", "parameters", count], ["active", "active parameters", count], ["flops_per_token", "FLOPs per token, forward", flops], ["state_per_token", "decode state per token", bytes], ["weights", "weights in bf16", bytes]];

export class CompareView {
  constructor(app) {
    this.app = app;
    this.chosen = "parameters";
    this.head = h("div", { class: "about" });
    this.callControls = new Call(app.start, app.call);
    this.diagram = new Diagram(app.openPart);
    this.body = h("div", { class: "numbers" });
    this.element = h("div", { class: "compare" }, this.head, this.callControls.element,
      h("section", { id: "diagram", tabindex: "-1", "aria-label": "diagrams side by side" }, this.diagram.element), this.body);
  }

  show(answer, question) {
    this.answer = answer;
    this.question = question;
    const names = titles(question, (of) => this.app.title(of));
    this.showHead(question, names);
    this.callControls.show({ ...question.call, ...answer.call }, this.app.errors);
    this.diagram.show(answer.diagram.svg, names.join(" beside "), question.part);
    fill(this.body, this.costs(answer, names), this.staircases(answer, names), table("in short", answer.summary.map((row) => [row.what, row.values]), names), this.details(answer, names));
  }

  showPart(question) {
    this.question = question;
    this.diagram.mark(question.part);
    for (const row of this.body.querySelectorAll("[data-path]")) row.classList.toggle("open", question.part !== null && row.dataset.path.startsWith(question.part));
  }

  showHead(question, names) {
    fill(this.head, h("h1", {}, names.map((name, number) => [number ? h("small", {}, " beside ") : "", name])),
      h("div", { class: "besides" }, question.models.map((model, number) => h("div", { role: "group", "aria-label": names[number] },
        h("span", {}, h("a", { href: "#", onclick: (event) => this.alone(event, number) }, `${names[number]} alone`), " ",
          h("button", { type: "button", class: "quiet", "aria-label": `without ${names[number]}`, onclick: () => this.drop(number) }, "×")),
        model.set.map((set) => h("button", { type: "button", class: "chip", "aria-label": `take back ${set}`, onclick: () => this.app.go(without(question, set, number)) }, h("code", {}, pathOf(set)), " = ", valueOf(set), h("span", { "aria-hidden": "true" }, " ×")))))),
      this.app.errors[""] ? refusal(this.app.errors[""], (meant) => this.app.meant(this.app.errors[""], meant)) : null);
  }

  alone(event, number) {
    event.preventDefault();
    this.app.go({ ...this.question, models: [this.question.models[number]] });
  }

  drop(number) {
    this.app.go({ ...this.question, models: this.question.models.filter((_, i) => i !== number) });
  }

  costs(answer, names) {
    return h("section", {}, h("h2", { class: "title" }, "costs"), h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "costs" }, h("table", { class: "costs" },
      h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, answer.costs.map((row) => h("tr", {}, h("th", { scope: "row" }, row.what), row.values.map((value, number) =>
        h("td", { class: "number", title: typeof value === "number" ? whole(value) : null }, row.texts?.[number] ?? whole(value),
          number && typeof value === "number" ? h("small", { class: `moved ${value > row.values[0] ? "more" : "less"}` }, change(row.values[0], value)) : null))))))));
  }

  /** From one architecture to another in single changes, with what each adds to one cost. */
  staircases(answer, names) {
    if (!answer.staircases?.length) return null;
    const known = COSTS.filter(([name]) => answer.staircases.some((stairs) => stairs.steps.some((step) => step.costs?.[name] !== undefined)));
    if (!known.some(([name]) => name === this.chosen)) this.chosen = known[0]?.[0] ?? "parameters";
    const select = h("select", { id: "stairs-of", "data-key": "stairs-of", onchange: (event) => {
      this.chosen = event.target.value;
      this.show(this.answer, this.question);
    } }, known.map(([name, words]) => h("option", { value: name, selected: name === this.chosen }, words)));
    return h("section", { class: "stairs" }, h("h2", { class: "title" }, "the staircase between them"), h("p", { class: "field" }, h("label", { for: "stairs-of" }, "what a step costs in"), select),
      answer.staircases.map((stairs) => this.staircase(stairs, names, answer)));
  }

  staircase(stairs, names, answer) {
    const [, , say] = COSTS.find(([name]) => name === this.chosen);
    const at = stairs.steps.map((step) => step.costs?.[this.chosen]);
    const shown = at.filter((value) => typeof value === "number");
    if (!shown.length) return h("p", { class: "faint note" }, "No step of this way can be priced.");
    const deltas = stairs.steps.map((step) => step.deltas?.[this.chosen] ?? 0);
    const first = at[0] - deltas[0];
    const low = Math.min(first, ...shown), high = Math.max(first, ...shown), floor = low - 0.15 * (high - low), span = high - floor || 1;
    const from = answer.of.indexOf(stairs.from), to = answer.of.indexOf(stairs.to);
    const rows = stairs.steps.map((step, number) => {
      const before = number ? at[number - 1] : first, after = at[number];
      const bar = h("i", { class: `stair ${after > before ? "more" : after < before ? "less" : "same"}`, "aria-hidden": "true" });
      bar.style.setProperty("--from", (Math.min(before, after) - floor) / span);
      bar.style.setProperty("--to", (Math.max(before, after) - floor) / span);
      return h("tr", {}, h("th", { scope: "row" }, said(step), changesOf(step)), h("td", { class: "number" }, deltas[number] ? `${deltas[number] > 0 ? "+" : "−"}${say(Math.abs(deltas[number]))}` : "±0"), h("td", { class: "bars" }, bar), h("td", { class: "number" }, say(after)));
    });
    return h("table", { class: "staircase" }, h("caption", {}, `${names[from] ?? stairs.from} → ${names[to] ?? stairs.to}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), h("th", { scope: "col", class: "number" }, "adds"), h("td", {}), h("th", { scope: "col", class: "number" }, "then"))),
      h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, names[from] ?? stairs.from), h("td", {}), h("td", {}), h("td", { class: "number" }, say(first))), rows));
  }

  details(answer, names) {
    if (!answer.details.length) return h("section", {}, h("h2", { class: "title" }, "every value that differs"), h("p", { class: "faint note" }, "Nothing differs."));
    const part = this.question.part;
    return h("section", {}, h("h2", { class: "title" }, "every value that differs"), h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": "values" }, h("table", { class: "details" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "path"), names.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, answer.details.map((row) => h("tr", { "data-path": row.path, class: part && row.path.startsWith(part) ? "open" : null }, h("th", { scope: "row" }, h("code", {}, row.path)), row.values.map((value, number) => this.cell(row.path, value, number, names))))))));
  }

  /** A value that can be written over where it is one word. */
  cell(path, value, number, names) {
    const text = String(value), error = this.app.errors[`${number}:${path}`];
    if (!/^[\w.+-]+$/.test(text) || !/^[\w.]+$/.test(path)) return h("td", {}, text);
    const input = h("input", { type: "text", "data-key": `${number}:${path}`, "aria-label": `${path} of ${names[number]}`, value: error?.tried ?? text, "aria-invalid": error ? "true" : null, autocomplete: "off", spellcheck: "false" });
    input.addEventListener("change", () => input.value.trim() !== text && this.app.edit([[path, input.value.trim()]], number));
    return h("td", { class: error ? "bad" : null }, input, error ? refusal(error, (meant) => this.app.edit([[path, meant]], number)) : null);
  }
}

/** The titles of a question's architectures; equal names are told apart by their changes. */
function titles(question, title) {
  return question.models.map((model, number) => {
    const twin = question.models.findIndex((each) => each.of === model.of) !== number || question.models.some((each, i) => i > number && each.of === model.of);
    return twin && model.set.length ? `${title(model.of)}, changed` : title(model.of);
  });
}

function said(step) {
  return step.name.replace(/^plus_\d+_/, "").replaceAll("_", " ");
}

function changesOf(step) {
  return h("small", {}, (step.changes ?? []).map((each) => h("span", {}, h("code", {}, each.path), ` ${each.from} → ${each.to}`)));
}

function table(title, rows, names) {
  if (!rows.length) return null;
  return h("section", {}, h("h2", { class: "title" }, title), h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(([what, values]) => h("tr", {}, h("th", { scope: "row" }, what), values.map((value) => h("td", {}, String(value))))))));
}
