// The diagram as on paper; every part of it opens.

import { h, say } from "./dom.js";

// Pixels per point: as wide as the smallest letters are nine pixels high, and no narrower than they can be read.
const MOST = 1.4, LEAST = 1;

/** The drawing of an answer as an element; its colours come from the style sheet, so that they follow the scheme. */
export function drawn(svg) {
  const read = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const element = document.importNode(read, true);
  const width = element.viewBox.baseVal.width;
  element.removeAttribute("width");
  element.removeAttribute("height");
  element.style.setProperty("--most", `${width * MOST}px`);
  element.style.setProperty("--least", `${width * LEAST}px`);
  element.classList.add("drawing");
  return element;
}

/** A diagram whose parts open: `open(path)`; `name` says what it is a diagram of. */
export class Diagram {
  constructor(open) {
    this.open = open;
    this.svg = "";
    this.element = h("div", { class: "paper", tabindex: "0", role: "group", "aria-label": "diagram" });
    this.element.addEventListener("click", (event) => this.opened(event.target));
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Draw an answer where it differs from what is drawn, and mark the part that is open. */
  show(svg, name, part) {
    if (svg !== this.svg) {
      const before = this.focused();
      this.svg = svg;
      const drawing = drawn(svg);
      drawing.setAttribute("role", "group");
      drawing.setAttribute("aria-label", `diagram of ${name}, from its input at the bottom to its output`);
      this.element.replaceChildren(drawing);
      this.element.parentElement?.parentElement?.style.setProperty("--wide", `${drawing.viewBox.baseVal.width * MOST + 2}px`);
      // One stop of the tabulator; arrows go on from part to part.
      this.parts().forEach((each, number) => each.setAttribute("tabindex", number ? "-1" : "0"));
      if (before !== null) this.group(before)?.focus({ preventScroll: true });
    }
    this.mark(part);
  }

  /** Whether all of it is seen in its column at its full size. */
  get fits() {
    const drawing = this.element.firstElementChild;
    return drawing === null || drawing.viewBox.baseVal.width * MOST <= this.element.clientWidth + 4;
  }

  parts() {
    return [...this.element.querySelectorAll("[data-part]")];
  }

  group(path) {
    return this.element.querySelector(`[data-part="${CSS.escape(path)}"]`);
  }

  focused() {
    return this.element.contains(document.activeElement) ? (document.activeElement.dataset.part ?? null) : null;
  }

  /** Mark what is open; where a part has no shape of its own, the nearest one around it. */
  mark(part) {
    for (const each of this.element.querySelectorAll(".open")) each.classList.remove("open");
    for (let path = part ?? ""; path; path = path.slice(0, Math.max(0, path.lastIndexOf(".")))) {
      const found = this.group(path);
      if (found === null) continue;
      found.classList.add("open");
      return;
    }
  }

  opened(target) {
    const group = target.closest?.("[data-part]");
    if (group) this.open(group.dataset.part);
  }

  pressed(event) {
    const group = event.target.closest?.("[data-part]");
    if (!group) return;
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.open(group.dataset.part);
      return;
    }
    const way = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    const parts = this.parts(), next = parts[parts.indexOf(group) + way];
    if (!next) return say("the end of the diagram");
    group.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  }
}
