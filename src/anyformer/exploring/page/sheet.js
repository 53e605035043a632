// One architecture: diagram, the part that is open, figures. A section is drawn again only where what it shows has changed.

import { Call } from "./call.js";
import { Diagram } from "./diagram.js";
import { fill, h } from "./dom.js";
import { refusal } from "./fields.js";
import { components, headlines, memories } from "./figures.js";
import { Masks } from "./masks.js";
import { inference, training } from "./memory.js";
import { Panel } from "./panel.js";
import { pathOf, query, valueOf, without } from "./question.js";
import { roofline, speeds } from "./roofline.js";

/** A part of the page with a title, drawn from data: the same data is not drawn twice. */
class Section {
  constructor(title, draw, attributes = {}) {
    this.draw = draw;
    this.key = "";
    this.body = h("div", {});
    this.element = h("section", attributes, h("h3", {}, title), this.body);
  }

  show(...data) {
    const key = JSON.stringify(data);
    if (key === this.key) return;
    this.key = key;
    const drawn = [this.draw(...data)].flat().filter(Boolean);
    this.element.hidden = drawn.length === 0;
    fill(this.body, drawn);
  }
}

export class SheetView {
  /** `app`: {source, start, edit(path, value), call(changes), go(question, options), openPart(path), errors}. */
  constructor(app) {
    this.app = app;
    this.sheet = null;
    this.head = h("div", { class: "about" });
    this.callControls = new Call(app.start, app.call);
    this.diagram = new Diagram(app.openPart);
    this.panel = new Panel({ open: app.openPart, edit: app.edit });
    this.masks = new Masks((length) => app.masks(length));
    this.sections = {
      headlines: new Section("figures", headlines, { class: "wide figures" }),
      components: new Section("where they are", components),
      speeds: new Section("predicted on one accelerator", (accelerators) => (accelerators.length ? speeds(accelerators) : null)),
      roofline: new Section("roofline", (accelerators) => (accelerators.length ? roofline(accelerators) : null)),
      training: new Section("memory of training", training),
      inference: new Section("memory of inference, by format of weights", inference),
      state: new Section("memory of decoding", memories),
    };
    this.masked = h("section", {}, h("h3", {}, "masks"), this.masks.element);
    const { headlines: first, ...others } = this.sections;
    this.wide = h("button", { type: "button", class: "wide-diagram", "aria-pressed": "false", onclick: () => this.widen() }, "whole width");
    this.element = h("div", { class: "sheet" }, this.head, this.callControls.element,
      h("div", { class: "columns" },
        h("section", { id: "diagram", tabindex: "-1", "aria-label": "diagram" }, this.wide, this.diagram.element),
        this.panel.element,
        h("div", { class: "numbers", id: "figures", tabindex: "-1" }, [first, ...Object.values(others)].map((each) => each.element), this.masked)));
  }

  /** The quick part of an answer; `base`: the figures before all changes, where these are known. */
  showFigures(answer, base) {
    const { figures, call } = answer;
    const on = figures.accelerators;
    this.sections.headlines.show(figures, base);
    this.sections.components.show(figures);
    this.sections.speeds.show(on);
    this.sections.roofline.show(on);
    this.sections.inference.show(figures, on);
    this.sections.state.show(figures.state);
    this.callControls.show(call, this.app.errors);
  }

  showMemory(answer, figures, call) {
    this.sections.training.show(answer, figures.accelerators, call.checkpointing);
  }

  /** Everything; `question` says which part is open. */
  show(sheet, question, base) {
    this.sheet = sheet;
    this.showFigures(sheet, base);
    this.showHead(sheet, question);
    this.diagram.show(sheet.diagram.svg, this.app.title(sheet.of), question.part);
    this.wide.hidden = !this.element.classList.contains("widened") && this.diagram.fits;
    this.panel.show(sheet, question.part, this.app.errors, this.app.slots ?? {});
    this.masks.show(sheet.masks);
    this.masked.hidden = sheet.masks.patterns.length === 0;
  }

  /** The diagram over the whole width of the page, or in its column. */
  widen() {
    const wide = this.element.classList.toggle("widened");
    this.wide.setAttribute("aria-pressed", String(wide));
    this.wide.textContent = wide ? "beside the figures" : "whole width";
  }

  showHead(sheet, question) {
    const { entry } = sheet;
    const model = question.models[0];
    const facts = entry ? [entry.organisation, entry.year, entry.summary].filter(Boolean).join(" · ") : "";
    const chips = model.set.map((set) => h("button", { type: "button", class: "chip", "aria-label": `take back ${set}`, onclick: () => this.app.go(without(question, set)) }, h("code", {}, pathOf(set)), " = ", valueOf(set), h("span", { "aria-hidden": "true" }, " ×")));
    const refused = Object.entries(this.app.errors).filter(([path]) => path === "" || !sheet.parts.some((part) => part.path === path || part.fields.some((each) => each.path === path)));
    fill(this.head,
      h("h1", {}, this.app.title(sheet.of)), !this.app.start.static && this.app.start.opened.some((each) => each.of === sheet.of) && !entry ? h("p", {}, h("a", { href: `#${new URLSearchParams({ model: sheet.of })}` }, "open its model")) : null,
      h("p", { class: "facts" }, facts, entry?.source ? h("small", { class: "source" }, sourced(entry.source)) : null),
      chips.length ? h("div", { class: "chips changes", role: "group", "aria-label": "changes" }, chips) : null,
      refused.map(([path, error]) => h("div", {}, path ? h("code", {}, path) : null, refusal(error, (meant) => this.app.meant(error, meant)))),
      (sheet.warnings ?? []).map((warning) => h("p", { class: "warning" }, warning)), (sheet.remarks ?? []).map((remark) => h("p", { class: "remark" }, remark)));
  }

  /** Only another part is open: nothing else is drawn. */
  showPart(question) {
    if (this.sheet === null) return;
    this.diagram.mark(question.part);
    this.panel.show(this.sheet, question.part, this.app.errors, this.app.slots ?? {});
  }
}

/** A source with links at its papers. */
export function sourced(text) {
  return text.split(/(arXiv \d{4}\.\d{4,5})/).map((piece) => (piece.startsWith("arXiv ") ? h("a", { href: `https://arxiv.org/abs/${piece.slice(6)}`, target: "_blank", rel: "noreferrer noopener" }, piece) : piece));
}

/** The words with which a sheet is asked for. */
export const words = (question, defaults) => String(query(question, defaults, question.models.slice(0, 1)));
