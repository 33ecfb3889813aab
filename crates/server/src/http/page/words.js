// Numbers as words.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const RATES = ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"];

function scaled(value, step, units) {
  let place = 0;
  while (Math.abs(value) >= step && place < units.length - 1) {
    value /= step;
    place += 1;
  }
  const digits = place === 0 || value >= 100 ? 0 : 1;
  return `${value.toFixed(digits)} ${units[place]}`;
}

/** Bytes. */
export const bytes = (value) => scaled(value, 1024, UNITS);

/** Bytes per second. */
export const rate = (value) => scaled(value, 1000, RATES);

/** A count. */
export function count(value) {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} G`;
  if (value >= 1e6) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value < 10 && value % 1 !== 0 ? value.toFixed(1) : Math.round(value).toString();
}

/** A share. */
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** A length of time. */
export function time(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 90) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${(seconds / 3600).toFixed(1)} h`;
  return `${(seconds / 86400).toFixed(1)} days`;
}

/** A number of a state: those beyond 2^53 and exact ones are texts there. */
export const number = (value) => Number(value ?? 0) || 0;
