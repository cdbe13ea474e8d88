// The map, as large as the window.

import { h } from "./dom.js";
import { mapPanel } from "./map-panel.js";

export function mapPage(body) {
  const panel = mapPanel({});
  body.classList.add("full");
  body.append(h("h1", { class: "unseen" }, "Map"), panel.element);
  return () => panel.close();
}
