// Changes of kind that are changes of a number: a causal mask is a window whose size is absent.

const word = (text) => text.trim().replace(/^(["'])(.*)\1$/, "$2");

/** The fields of a table in one line, {kind = "window", size = 512}; null of other text. */
function fields(text) {
  const inside = /^\{(.*)\}$/s.exec(text.trim());
  if (!inside) return null;
  const pairs = inside[1].split(",").filter((each) => each.trim()).map((each) => each.split("=").map((side) => side.trim()));
  return pairs.every((pair) => pair.length === 2) ? Object.fromEntries(pairs) : null;
}

/**
 * The changes of an architecture's `places` as changes of their numbers: [{path, text, number}], `number` that of the change, with
 * `absent` in place of the text where a number is taken away; `path` "" of what is none.
 */
export function numbered(changes, places) {
  const found = changes.map(([path, text], number) => ({ path, text, number }));
  return places.filter((place) => place.kinds).reduce((now, place) => ofKind(now, place), found);
}

/** The same for one place. */
function ofKind(changes, place) {
  const [without, having] = place.kinds, size = place.paths[0], name = size.slice(size.lastIndexOf(".") + 1);
  const parts = place.paths.map((path) => path.slice(0, path.lastIndexOf("."))), kind = parts.map((path) => `${path}.kind`);
  let is = place.now === null ? without : having;
  const sizes = changes.filter((each) => place.paths.includes(each.path)), rest = changes.filter((each) => !place.paths.includes(each.path));
  const made = [];
  for (const each of rest) {
    const table = parts.includes(each.path) ? (fields(each.text) ?? { kind: each.text }) : kind.includes(each.path) ? { kind: each.text } : null;
    if (table === null) made.push(each);
    else {
      const { kind: said, [name]: given, ...others } = table;
      is = word(said ?? "");
      if (is === without && place.now !== null && kind.includes(each.path)) return [...made, { ...each, path: "", message: `keeps its ${name}, which ${without} has not: give ${parts[0]}={kind = "${without}"}` }];
      if (given !== undefined && sizes.length) return [...made, { ...each, path: "" }];
      if (Object.keys(others).length || ![without, having].includes(is) || (is === without && given !== undefined)) return [...made, { ...each, path: "" }];
      if (is === without) made.push({ path: size, absent: true, number: each.number });
      else if (given !== undefined) made.push({ path: size, text: given, number: each.number });
      else if (place.now === null && !sizes.length) return [...made, { ...each, path: "", message: `a ${having} needs its ${name}: give ${size} too` }];
    }
  }
  if (is !== without) return [...made, ...sizes];
  // It has nothing but its kind.
  const inside = (each) => each.path !== size && parts.some((path) => each.path.startsWith(`${path}.`));
  return [...made.map((each) => (inside(each) ? { ...each, path: "" } : each)), ...sizes.map((each) => ({ ...each, path: "" }))];
}
