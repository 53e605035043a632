// How tokens and figures of a model that is opened are drawn.

import { h } from "./dom.js";
import { three } from "./numbers.js";

/** A token whose blanks are seen. */
export const visible = (text) => text.replaceAll(" ", "\u2423").replaceAll("\n", "\u21b5") || "\u2205";

/** A wide table that scrolls, which the keyboard reaches. */
export const scrolled = (name, inside) => h("div", { class: "scrolled", tabindex: "0", role: "group", "aria-label": name }, inside);

/** Three digits behind the point of what is below 10, so that 0.996 is not 1, and no sign before a zero. */
const figure = (number) => (Math.abs(number) < 9.9995 ? number.toFixed(3).replace(/^-(0\.0*)$/, "$1") : three(number));

/** A number on a ground the darker the larger `share` is, of 1. */
export function shaded(number, share) {
  const cell = h("td", { class: "number shaded" }, figure(number));
  cell.style.setProperty("--share", Math.max(0, Math.min(1, share)));
  return cell;
}
