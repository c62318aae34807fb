import { setAttribute, setText, svg } from "../page/dom";
import { percent, useOfLink } from "../page/format";
import type { MapLayout } from "./layout";
import { useClass, type Route } from "./routes";

// The lines between peers. Each has a wide one without colour around it, so that it can be pointed at.
export class LinkLayer {
  readonly root = svg("svg", { class: "links", "aria-hidden": "true" });
  private readonly lines = new Map<string, Line>();

  render(layout: MapLayout, routes: Route[]): void {
    setAttribute(this.root, "width", String(layout.width));
    setAttribute(this.root, "height", String(layout.height));
    const gone = new Set(this.lines.keys());
    for (const route of routes) {
      gone.delete(route.key);
      let line = this.lines.get(route.key);
      if (!line) {
        line = new Line();
        this.lines.set(route.key, line);
        this.root.append(line.root);
      }
      line.render(route);
    }
    for (const key of gone) {
      this.lines.get(key)!.root.remove();
      this.lines.delete(key);
    }
  }
}

class Line {
  private readonly title = svg("title");
  private readonly seen = svg("path", { class: "seen" });
  private readonly touched = svg("path", { class: "touched" });
  readonly root = svg("g", {}, this.title, this.seen, this.touched);

  render(route: Route): void {
    setAttribute(this.seen, "d", route.path);
    setAttribute(this.touched, "d", route.path);
    setAttribute(this.root, "data-kind", route.kind);
    setAttribute(this.root, "data-use", String(useClass(route.links) ?? "unknown"));
    setText(this.title, route.links.map(textOf).join("\n"));
  }
}

function textOf(link: Route["links"][number]): string {
  const share = link.use === null ? "" : ` (${percent(link.use)})`;
  const kind = link.kind === "both" ? "pipeline and ring" : link.kind;
  return `${link.from} → ${link.to}, ${kind}: ${useOfLink(link)}${share}`;
}
