// Commands of a terminal that say what the page shows.

/** A word as a shell reads it. */
export const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/** Changes as options. */
export const sets = (changes) => changes.map((each) => ` --set ${quoted(each)}`).join("");

/** What prints the stairs between architectures side by side: its `--set` changes the last of them, so that others with changes
 * are written to files first. `file(of)`: what a command names. */
export function stairs({ models, call }, length, file) {
  const kept = (model, number) => number < models.length - 1 && model.set.length > 0;
  const files = models.filter(kept).map((model) => `anyformer show ${quoted(file(model.of))}${sets(model.set)} --toml > ${models.indexOf(model) + 1}.toml\n`);
  const names = models.map((model, number) => (kept(model, number) ? `${number + 1}.toml` : quoted(file(model.of))));
  return `${files.join("")}anyformer diff ${names.join(" ")}${sets(models.at(-1).set)} --length ${length} --batch ${call.batch || 1} --steps`;
}
