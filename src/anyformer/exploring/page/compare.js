// Two or three architectures side by side: what differs in the diagram, the stairs of single changes between them and what
// a step costs, which can be taken by itself, every value that differs.

import { Call } from "./call.js";
import { Diagram } from "./diagram.js";
import { fill, h } from "./dom.js";
import { refusal, spaced } from "./fields.js";
import { bytes, change, count, dollars, flops } from "./numbers.js";
import { pathOf, swapped, valueOf, without } from "./question.js";

const COSTS = [["parameters", "parameters", count], ["active", "active parameters", count], ["flops_per_token", "FLOPs per token, forward", flops], ["training_flops_per_token", "FLOPs per token, training", flops], ["elementwise_per_token", "element-wise operations per token, forward", flops],
  ["state_per_token", "decode state per token", bytes], ["state", "decode state of the batch", bytes], ["weights", "weights in bf16", bytes],
  ["train_price", "dollars of training on 1M tokens", dollars], ["prefill_price", "dollars of reading 1M tokens", dollars], ["decode_price", "dollars of writing 1M tokens", dollars]];

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
    const names = answer.of;
    this.showHead(question, names);
    this.callControls.show({ ...question.call, length: answer.length }, this.app.errors);
    this.diagram.show(answer.diagram.svg, names.join(" beside "), question.part);
    fill(this.body, this.costs(answer, names), table("in short", answer.summary, names), this.allStairs(answer, names), table("every value that differs", answer.details, names, "wide"));
  }

  showPart(question) {
    this.question = question;
    this.diagram.mark(question.part);
  }

  showHead(question, names) {
    fill(this.head, h("h1", {}, names.map((name, number) => [number ? h("small", {}, " beside ") : "", name])),
      h("div", { class: "besides" }, question.models.map((model, number) => h("div", { role: "group", "aria-label": names[number] },
        h("span", {}, h("a", { href: "#", onclick: (event) => this.alone(event, number) }, `${names[number]} alone`), " ",
          h("button", { type: "button", class: "quiet", "aria-label": `without ${names[number]}`, onclick: () => this.drop(number) }, "×")),
        model.set.map((set) => h("button", { type: "button", class: "chip", "aria-label": `take back ${set}`, onclick: () => this.app.go(without(question, set, number)) }, h("code", {}, pathOf(set)), " = ", valueOf(set), h("span", { "aria-hidden": "true" }, " ×")))))),
      h("p", {}, h("button", { type: "button", class: "quiet", "aria-keyshortcuts": "x", title: "what differs, and the stairs, the other way round (x)", onclick: () => this.app.go(swapped(question)) }, "swap the order")),
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
    return h("section", {}, h("h2", { class: "title" }, "costs"), scrolled("costs", h("table", { class: "costs" },
      h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", {}, answer.costs.map((row) => h("tr", {}, h("th", { scope: "row" }, row.what), row.values.map((value, number) => h("td", { class: "number" }, value, moved(row.ratios[number])))))))));
  }

  /** From one architecture to another in single changes, with what each adds to one cost. */
  allStairs(answer, names) {
    if (!answer.staircases?.length) return answer.told ? h("p", { class: "faint note" }, answer.told) : null;
    const known = COSTS.filter(([name]) => answer.staircases.some((stairs) => typeof stairs.start[name] === "number"));
    if (!known.some(([name]) => name === this.chosen)) this.chosen = known[0]?.[0] ?? "parameters";
    const select = h("select", { id: "stairs-of", "data-key": "stairs-of", onchange: (event) => {
      this.chosen = event.target.value;
      this.show(this.answer, this.question);
    } }, known.map(([name, words]) => h("option", { value: name, selected: name === this.chosen }, words)));
    return h("section", { class: "stairs" }, h("h2", { class: "title" }, "the stairs between them"), h("p", { class: "field" }, h("label", { for: "stairs-of" }, "what a step costs in"), select),
      answer.staircases.map((stairs) => this.stairs(stairs, names, answer)));
  }

  stairs(stairs, names, answer) {
    const [, , say] = COSTS.find(([name]) => name === this.chosen);
    const from = answer.of.indexOf(stairs.from), first = stairs.start[this.chosen];
    const all = [first, ...stairs.steps.map((step) => step.costs[this.chosen])].filter((value) => typeof value === "number");
    if (typeof first !== "number") return h("p", { class: "faint note" }, `${names[from]}: no such figure.`);
    // The bars begin a little below the lowest, so that small steps are seen.
    const low = Math.min(...all), high = Math.max(...all), floor = Math.max(0, low - 0.2 * (high - low)), span = high - floor || 1;
    const rows = stairs.steps.map((step, number) => {
      const before = number ? stairs.steps[number - 1].costs[this.chosen] : first, after = step.costs[this.chosen], delta = step.deltas[this.chosen];
      const bar = h("i", { class: `stair ${delta > 0 ? "more" : delta < 0 ? "less" : "same"}`, "aria-hidden": "true" });
      bar.style.setProperty("--from", (Math.min(before, after) - floor) / span);
      bar.style.setProperty("--to", (Math.max(before, after) - floor) / span);
      const take = () => this.app.edit(step.alone, from);
      return h("tr", {}, h("th", { scope: "row" }, spaced(step.name), changesOf(step)), h("td", { class: "number" }, delta ? `${delta > 0 ? "+" : "−"}${say(Math.abs(delta))}` : "–"), h("td", { class: "bars" }, bar), h("td", { class: "number" }, typeof after === "number" ? say(after) : "–"),
        h("td", {}, step.alone && h("button", { type: "button", class: "quiet", "aria-label": `take the step ${spaced(step.name)} alone`, title: `put this into ${names[from]} alone`, onclick: take }, "take")));
    });
    const errors = Object.entries(this.app.errors).filter(([place]) => place.startsWith(`${from}:`)).map(([, error]) => refusal(error, () => undefined));
    return [scrolled("stairs", h("table", { class: "staircase" }, h("caption", {}, `${names[from]} → ${names[from + 1]}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), h("th", { scope: "col", class: "number" }, "adds"), h("td", {}), h("th", { scope: "col", class: "number" }, "then"), h("td", {}))),
      h("tbody", {}, h("tr", {}, h("th", { scope: "row" }, names[from]), h("td", {}), h("td", {}), h("td", { class: "number" }, say(first)), h("td", {})), rows))), errors];
  }
}

function changesOf(step) {
  return h("small", {}, step.words.map((each) => h("span", {}, `${each.what}: ${short(each.from)} → ${short(each.to)}`)));
}

const short = (text) => (text.length > 60 ? `${text.slice(0, 58)} …` : text);

/** The share by which a figure differs from the first one's. */
function moved(ratio) {
  if (typeof ratio !== "number" || ratio === 1) return null;
  return h("small", { class: `moved ${ratio > 1 ? "more" : "less"}` }, change(1, ratio));
}

/** A table that is moved sideways where the page is narrow. */
const scrolled = (name, inside) => h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": name }, inside);

function table(title, rows, names, form) {
  if (!rows.length) return null;
  return h("section", { class: form }, h("h2", { class: "title" }, title), scrolled(title, h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map(({ what, values }) => h("tr", {}, h("th", { scope: "row" }, what), values.map((value) => h("td", {}, String(value)))))))));
}
