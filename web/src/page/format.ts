// Numbers for people, as the program's own lines have them: "25.0 MiB", "16.4 k", "2 min 05 s".

export const kUnknown = "–";

type Maybe = number | null | undefined;

function unknown(value: Maybe): value is null | undefined {
  return value === null || value === undefined || !Number.isFinite(value);
}

// Three digits that count.
function three(value: number): string {
  const size = Math.abs(value);
  if (size >= 99.95) return value.toFixed(0);
  return value.toFixed(size >= 9.995 ? 1 : 2);
}

export function bytes(value: Maybe): string {
  if (unknown(value)) return kUnknown;
  if (value < 1024) return `${Math.round(value)} B`;
  let scaled = value;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    scaled /= 1024;
    if (scaled < 999.5) return `${three(scaled)} ${unit}`;
  }
  return `${three(scaled / 1024)} TiB`;
}

export function rate(value: Maybe): string {
  return unknown(value) ? kUnknown : `${bytes(value)}/s`;
}

export function count(value: Maybe): string {
  if (unknown(value)) return kUnknown;
  if (Math.abs(value) < 999.5) return Number.isInteger(value) ? String(value) : three(value);
  let scaled = value;
  for (const unit of ["k", "M", "G"]) {
    scaled /= 1000;
    if (Math.abs(scaled) < 999.5) return `${three(scaled)} ${unit}`;
  }
  return `${three(scaled / 1000)} T`;
}

export function whole(value: Maybe): string {
  return unknown(value) ? kUnknown : String(Math.round(value));
}

export function duration(seconds: Maybe): string {
  if (unknown(seconds)) return kUnknown;
  if (seconds < 0) return `-${duration(-seconds)}`;
  if (seconds === 0) return "0 s";
  if (seconds < 0.9995e-3) return `${three(seconds * 1e6)} us`;
  if (seconds < 0.9995) return `${three(seconds * 1e3)} ms`;
  if (seconds < 59.95) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  const rounded = Math.round(seconds);
  if (rounded < 3600) return `${Math.floor(rounded / 60)} min ${two(rounded % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.round((minutes % 1440) / 60)} h`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}

export function percent(share: Maybe): string {
  return unknown(share) ? kUnknown : `${(share * 100).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}%`;
}

// A loss, a learning rate, a distance.
export function decimal(value: Maybe): string {
  if (unknown(value)) return kUnknown;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2);
  return size >= 100 ? value.toFixed(1) : value.toFixed(4);
}

// First and last layer, from a range that ends behind the last.
export function layers(range: [number, number] | null): string {
  if (!range) return kUnknown;
  const [first, behind] = range;
  return behind - first <= 1 ? `${first}` : `${first}–${behind - 1}`;
}

export function useOfLink(link: { rate: number; bandwidth: number | null }): string {
  return link.bandwidth === null ? rate(link.rate) : `${rate(link.rate)} of ${rate(link.bandwidth)}`;
}
