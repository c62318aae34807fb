// The address that the coordinator prints ends in #token=…: whoever has it may pause and stop the run. The page takes it out of the
// address, so that it is not copied along with it, and keeps it for as long as its tab is open: a cookie would go to whatever else
// listens on that computer.

const kKey = "rookery-token";

export function tokenIn(fragment: string): string | null {
  return /^#token=([0-9a-zA-Z_-]+)(?:&|$)/.exec(fragment)?.[1] ?? null;
}

// What somebody has typed or pasted: a token, or the whole address with it.
export function tokenFrom(text: string): string | null {
  const hash = text.indexOf("#");
  return tokenIn(hash < 0 ? `#token=${text.trim()}` : text.slice(hash).trim());
}

export function token(): string | null {
  return sessionStorage.getItem(kKey);
}

export function keepToken(token: string): void {
  sessionStorage.setItem(kKey, token);
}

export function forgetToken(): void {
  sessionStorage.removeItem(kKey);
}

export function takeTokenOutOfAddress(): void {
  const found = tokenIn(location.hash);
  if (!found) return;
  keepToken(found);
  history.replaceState(null, "", location.pathname + location.search);
}

export function authorization(): Record<string, string> {
  const known = token();
  return known ? { Authorization: `Bearer ${known}` } : {};
}

// What a WebSocket offers: the server answers with the first, and looks for the token in the second.
export function protocols(): string[] {
  const known = token();
  return known ? ["rookery", `rookery-token.${known}`] : ["rookery"];
}

export type Access = "everything" | "look" | "nothing";

// What the server lets this page do; null if it does not answer.
export async function access(): Promise<Access | null> {
  try {
    const answer = await fetch("/api/state?brief", { headers: authorization() });
    if (answer.status === 401) return "nothing";
    const state = (await answer.json()) as { run?: { may_control?: boolean } };
    return state.run?.may_control ? "everything" : "look";
  } catch {
    return null; // the connection says so
  }
}
