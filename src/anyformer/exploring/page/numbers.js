// Numbers as people read them: three digits and a unit; 1 GB is 10^9 bytes, 1k tokens are 1,024.

const UNITS = [[1e24, "Y"], [1e21, "Z"], [1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
const COUNTS = [[1e12, "T"], [1e9, "B"], [1e6, "M"], [1e3, "k"]];
const SPACE = "\u202f";

/** Three digits: 8.03, 80.3, 803. */
export function three(value) {
  const size = Math.abs(value);
  return value.toLocaleString("en", { maximumFractionDigits: size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2 });
}

function inUnits(value, units, unit) {
  const size = Math.abs(value);
  for (const [one, sign] of units) if (size >= one * 0.9995) return `${three(value / one)}${SPACE}${sign}${unit}`;
  if (size === 0 || size >= 0.01) return unit ? `${three(value)}${SPACE}${unit}` : three(value);
  return `${value.toPrecision(2)}${unit ? SPACE + unit : ""}`;
}

/** 8030261248 -> 8.03 B; what is below a thousand as it is. */
export const count = (value) => inUnits(value, COUNTS, "");
export const bytes = (value) => inUnits(value, UNITS, "B");
/** FLOPs where a heading says so: 16.1 G. */
export const operations = (value) => inUnits(value, UNITS, "");
export const flops = (value) => inUnits(value, UNITS, "FLOPs");
export const rate = (value) => inUnits(value, UNITS, "FLOP/s");
export const bandwidth = (value) => inUnits(value, UNITS, "B/s");
/** Every digit: 8,030,261,248. */
export const whole = (value) => Number(value).toLocaleString("en", { maximumFractionDigits: 6 });

/** 0.00123 -> 1.23 ms. */
export function seconds(value) {
  for (const [one, unit] of [[31557600, "years"], [86400, "days"], [3600, "h"], [60, "min"], [1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (value >= one * 0.9995) return `${three(value / one)}${SPACE}${unit}`;
  }
  return value === 0 ? `0${SPACE}s` : `${three(value * 1e9)}${SPACE}ns`;
}

/** 0.123 -> 12.3 %. */
export function percent(value) {
  return `${value !== 0 && Math.abs(value) < 0.0005 ? "< 0.1" : (100 * value).toLocaleString("en", { maximumFractionDigits: 1 })}${SPACE}%`;
}

/** 4096 -> 4k, 1048576 -> 1M, 197 -> 197. */
export function tokens(value) {
  for (const [one, sign] of [[1048576, "M"], [1024, "k"]]) {
    if (value >= one && (value * 4) % one === 0) return `${(value / one).toLocaleString("en")}${sign}`;
  }
  return whole(value);
}

export const dollars = (value) =>
  `$${value >= 0.01 ? value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }) : value.toPrecision(2)}`;

/** A change from one number to another: +12.3 %, ×3.1, or nothing where they are equal. */
export function change(before, after) {
  if (before === after) return "";
  if (!before) return "new";
  const ratio = after / before;
  if (ratio >= 3 || ratio <= 1 / 3) return `×${SPACE}${three(ratio)}`;
  const share = Math.abs(ratio - 1), sign = ratio > 1 ? "+" : "−";
  return share < 0.0005 ? `${sign}${Number((100 * share).toPrecision(1))}${SPACE}%` : `${sign}${percent(share)}`;
}

/** Number written by a user, with , _ or blanks between digits, or k, M, B behind them; null if it is none. */
export function parsed(text) {
  const found = /^\s*(-?[\d,_\s]*\.?\d+(?:e[+-]?\d+)?)\s*([kKMBG]i?)?\s*$/.exec(text);
  if (found === null) return null;
  const value = Number(found[1].replace(/[,_\s]/g, ""));
  const times = { k: 1024, K: 1024, ki: 1024, Ki: 1024, M: 1048576, Mi: 1048576, B: 1e9, G: 1e9 }[found[2]] ?? 1;
  return Number.isFinite(value) ? value * times : null;
}
