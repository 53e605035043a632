// The tools of the page: undo and redo, beside, copy, share, the colours, and the list of keys.

import { h, fill, say, the } from "./dom.js";

const KEYS = [["/", "search"], ["u", "undo (also Ctrl Z)"], ["r", "redo (also Ctrl Y)"], ["b", "open another beside"], ["x", "swap the order of those side by side"], ["c", "copy as TOML, Python or command"], ["s", "copy the address of this page"],
  ["n, p", "next and previous part"], ["o", "the whole, no part"], ["d, v, f", "to the diagram, to the part's values, to the figures"], ["t", "light, dark or as the system"], ["?", "these keys"],
  ["↑ ↓", "in a number: one more or less; with Shift twice or half. In the diagram: from part to part"], ["Esc", "close, or give a field its old value back"]];

/** The buttons; `app`: {history, beside(), form(), schemes}. */
export function tools(element, app) {
  const button = (name, title, keys, run) => h("button", { type: "button", title: keys ? `${title} (${keys})` : title, "aria-label": title, "aria-keyshortcuts": keys, id: `tool-${name}`, onclick: run }, name);
  fill(element,
    button("undo", "undo", "u", () => app.history.undo()), button("redo", "redo", "r", () => app.history.redo()),
    button("beside", "open another beside", "b", () => app.beside()), button("copy", "copy as TOML, Python or command", "c", () => copying(app.forms())),
    button("share", "copy the address of this page", "s", share), button(schemeName(), "light, dark or as the system", "t", () => scheme(element)), button("?", "keys", "?", keys));
  element.lastElementChild.previousElementSibling.id = "tool-scheme";
}

/** What can be undone now. */
export function undoable(history) {
  the("#tool-undo").disabled = !history.canUndo;
  the("#tool-redo").disabled = !history.canRedo;
}

const SCHEMES = ["auto", "light", "dark"];

function schemeName() {
  return document.documentElement.dataset.scheme ?? "auto";
}

/** The next colour scheme, remembered for the next visit. */
export function scheme(element) {
  const next = SCHEMES[(SCHEMES.indexOf(schemeName()) + 1) % SCHEMES.length];
  coloured(next);
  localStorage.setItem("scheme", next);
  element.querySelector("#tool-scheme").textContent = next;
  dispatchEvent(new Event("scheme"));
  say(`colours: ${next}`);
}

/** Take the colours of a scheme. */
export function coloured(name) {
  if (name === "light" || name === "dark") document.documentElement.dataset.scheme = name;
  else delete document.documentElement.dataset.scheme;
}

async function copied(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} is copied`);
    toast(`${what} is copied`);
  } catch {
    toast("The browser does not let this page copy: select the text and copy it.");
  }
}

/** Words at the edge of the page for some seconds. */
export function toast(text) {
  the(".toast")?.remove();
  const element = h("p", { class: "toast", "aria-hidden": "true" }, text);
  document.body.append(element);
  setTimeout(() => element.remove(), 2500);
}

export function share() {
  return copied(location.href, "the address");
}

/** A window over the page with a title, which Escape closes. */
export function dialog(title, ...inside) {
  const element = h("dialog", { "aria-labelledby": "dialog-title" }, h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), h("button", { class: "close", "aria-label": "close" }, "×")), inside);
  element.addEventListener("close", () => element.remove());
  element.addEventListener("click", (event) => event.target === element && element.close());
  document.body.append(element);
  element.showModal();
  return element;
}

const FORMS = [["set", "command"], ["cost", "cost"], ["toml", "TOML"], ["python", "Python"], ["json", "JSON"]];

/** A dialog of the forms in which an architecture can be taken along. */
export function copying(forms) {
  if (!forms) return toast("Nothing is shown that could be copied.");
  const shown = h("pre", { tabindex: "0", id: "form-shown" });
  const known = FORMS.filter(([name]) => forms[name]);
  let now = known[0];
  const take = (form) => {
    now = form;
    shown.textContent = forms[form[0]];
    for (const tab of tabs) tab.setAttribute("aria-selected", String(tab.id === `form-${form[0]}`));
  };
  const tabs = known.map((form) => h("button", { type: "button", role: "tab", id: `form-${form[0]}`, "aria-controls": "form-shown", onclick: () => take(form) }, form[1]));
  dialog("Take it along", h("div", { role: "tablist", "aria-label": "form", class: "tabs" }, tabs), shown,
    h("p", {}, h("button", { type: "button", class: "main", onclick: () => copied(forms[now[0]], now[1]) }, "copy")));
  take(now);
  return undefined;
}

export function keys() {
  dialog("Keys", h("dl", { class: "keys" }, KEYS.map(([key, what]) => h("div", {}, h("dt", {}, key.split(", ").map((each, number) => [number ? " " : "", h("kbd", {}, each)])), h("dd", {}, what)))));
}

/** Keys of the page: `run` by key; not while a field is written in, nor with Alt. */
export function listening(run) {
  addEventListener("keydown", (event) => {
    const typing = event.target.closest?.("input:not([type=checkbox]):not([type=range]), select, textarea, dialog");
    if (event.altKey || event.defaultPrevented) return;
    if (event.ctrlKey || event.metaKey) {
      const key = event.key.toLowerCase();
      const name = key === "z" ? (event.shiftKey ? "r" : "u") : key === "y" ? "r" : key === "k" ? "/" : null;
      if (name === null || (typing && key !== "k")) return;
      event.preventDefault();
      run[name]();
    } else if (!typing && run[event.key]) {
      event.preventDefault();
      run[event.key]();
    }
  });
}
