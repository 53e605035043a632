// Elements of HTML and SVG in a line each, and what the page says to screen readers.

const SVG = "http://www.w3.org/2000/svg";

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in PROPERTIES) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false && child !== ""));
  return element;
}

const PROPERTIES = { value: 1, checked: 1, selected: 1, indeterminate: 1 };

/** An element of HTML: h("p", {class: "faint"}, "text", other). */
export function h(tag, attributes, ...children) {
  return made(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function s(tag, attributes, ...children) {
  return made(document.createElementNS(SVG, tag), attributes, children);
}

/** The one element of a selector. */
export function the(selector) {
  return document.querySelector(selector);
}

/** Put children into an element in place of what is there; what has the keyboard keeps it, by its data-key. */
export function fill(element, ...children) {
  const held = element.contains(document.activeElement) ? document.activeElement : null;
  const key = held?.dataset?.key ?? null;
  const range = key !== null && "selectionStart" in held ? [held.selectionStart, held.selectionEnd] : null;
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  if (key === null) return;
  const again = element.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (again === null) return;
  again.focus({ preventScroll: true });
  if (range !== null && range[0] !== null && again.type !== "number") again.setSelectionRange(...range);
}

/** Read by a screen reader when it has time, shown to nobody else. */
export function say(text) {
  const live = the("#said");
  live.textContent = live.textContent === text ? `${text}\u00a0` : text;
}

/** A function that runs once, so many milliseconds after its last call. */
export function later(milliseconds, run) {
  let waiting = 0;
  return (...values) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => run(...values), milliseconds);
  };
}
