import "./styles/base.css";
import "./styles/header.css";
import "./styles/swarm.css";
import "./styles/training.css";
import "./styles/time.css";
import "./styles/events.css";

import { EventsView } from "./events/events_view";
import { Connection, openLive, type Status } from "./live/connection";
import { access, forgetToken, keepToken, takeTokenOutOfAddress, token, tokenIn } from "./live/session";
import { kProtocol, type Message } from "./model/api";
import { SwarmClock } from "./model/clock";
import { apply, emptyModel } from "./model/store";
import { ConnectionBanner } from "./page/connection_banner";
import { Controls } from "./page/controls";
import { html } from "./page/dom";
import { Notices } from "./page/notices";
import { forgetColours } from "./page/palette";
import { RunHeader } from "./page/run_header";
import { Tabs } from "./page/tabs";
import { themeButton } from "./page/theme";
import { TokenForm } from "./page/token_form";
import { isImportant, sentenceOf } from "./page/words";
import { SwarmView } from "./swarm/swarm_view";
import { TimeView } from "./time/time_view";
import { TrainingView } from "./training/training_view";

declare global {
  interface Window {
    // For tests: how many frames there have been, and whether what is shown is live.
    rookery: { frames: number; connected: boolean };
  }
}

const model = emptyModel();
const clock = new SwarmClock();
let status: Status = "connecting";
let heardAt: number | null = null; // seconds on the clock of the page
window.rookery = { frames: 0, connected: false };

const training = new TrainingView();
const time = new TimeView();
const tabs = new Tabs([new SwarmView(), training, time, new EventsView()]);
const header = new RunHeader();
const notices = new Notices();
const controls = new Controls(notices);
const banner = new ConnectionBanner();
const tokenForm = new TokenForm((entered) => {
  keepToken(entered);
  void connect();
});
const announcer = html("p", { class: "visually-hidden", "aria-live": "polite", "data-testid": "announcer" });

function seconds(): number {
  return performance.now() / 1000;
}

function isOver(): boolean {
  return model.run?.phase === "ended" || model.run?.phase === "failed";
}

function hear(message: Message): void {
  heardAt = seconds();
  const added = apply(model, message);
  clock.hear(model.seconds, heardAt);
  if (message.type === "update") announce(added.filter((event) => isImportant(event.event)).map(sentenceOf));
  else if (message.protocol !== kProtocol) notices.error("The server is of another version than this page: reload it.");
}

function announce(sentences: string[]): void {
  if (sentences.length > 0) announcer.textContent = sentences.join(". ");
}

const connection = new Connection(openLive, {
  message: hear,
  isOver,
  status: (now) => {
    status = now;
    window.rookery.connected = now === "live";
    if (now === "lost") void checkAccess(); // another run may have its place
  },
});

// False if the server shows nothing without another token.
async function checkAccess(): Promise<boolean> {
  const allowed = await access();
  const isRefused = token() !== null && (allowed === "look" || allowed === "nothing");
  if (isRefused) forgetToken();
  document.body.toggleAttribute("data-locked", allowed === "nothing");
  if (allowed === "nothing") {
    connection.stop();
    tokenForm.ask(isRefused ? "That is not the token of this run." : "");
    return false;
  }
  if (isRefused) notices.error("The server does not know this token: open the address that the coordinator has printed.");
  tokenForm.hide();
  return true;
}

async function connect(): Promise<void> {
  takeTokenOutOfAddress();
  if (await checkAccess()) connection.start();
}

function build(): void {
  const theme = themeButton(() => {
    forgetColours();
    training.redraw();
    time.redraw();
  });
  const tools = html("div", { class: "tools" }, controls.root, theme);
  document.getElementById("header")!.append(banner.root, html("div", { class: "head" }, header.title, tools), tokenForm.root, header.facts, notices.root);
  document.getElementById("main")!.append(tabs.list, ...tabs.panels, announcer);
  document.getElementById("skip")!.addEventListener("click", (event) => {
    event.preventDefault(); // the fragment of the address is for views
    tabs.visiblePanel().focus();
  });
  addEventListener("hashchange", () => {
    if (tokenIn(location.hash)) void connect();
  });
}

// Draws in every frame what has changed since the one before, and only in the view that is visible.
function frame(): void {
  window.rookery.frames++;
  banner.render(status, isOver(), heardAt === null ? null : seconds() - heardAt);
  header.render(model);
  controls.render(model);
  tabs.visible().render(model, clock.now(seconds()));
  requestAnimationFrame(frame);
}

build();
void connect();
requestAnimationFrame(frame);
