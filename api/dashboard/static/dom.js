// Elements, made of text alone: whatever a name holds, it is shown as characters.

const SVG = "http://www.w3.org/2000/svg";

/** An element; props are properties or attributes, `on…` are listeners; null children are left out. */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** The same of SVG. */
export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) add(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Put other children into an element, keeping focus where its key is the same. */
export function refill(element, ...children) {
  const held = document.activeElement;
  const key = held && element.contains(held) ? held.dataset.key : undefined;
  element.replaceChildren();
  add(element, children);
  if (key === undefined) return;
  for (const one of element.querySelectorAll("[data-key]")) if (one.dataset.key === key) one.focus();
}

/** A link inside the page; each part of the path is escaped. */
export function link(parts, text, props) {
  return h("a", { href: href(...parts), "data-key": parts.join("/"), ...props }, shown(text));
}

export function href(...parts) {
  return "#/" + parts.map(encodeURIComponent).join("/");
}

export const jobLink = (name, props) => {
  const [namespace, ...rest] = name.split("/");
  return link(["job", namespace, rest.join("/")], name, props);
};
export const nodeLink = (name, props) => link(["node", name], name, props);
export const domainLink = (level, name, props) => link(["domain", level, name], name, props);

// Marks that would turn the direction of what follows them are shown as what they are.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A name as it may be shown: no character that hides, or turns others around. */
export function shown(text) {
  return String(text).replace(UNSEEN, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** A name in an element of its own, which keeps its direction to itself. */
export function name(text, props) {
  return h("bdi", { class: "name", ...props }, shown(text));
}

export function table(heads, rows, props) {
  const align = (head) => (head.startsWith(">") ? "num" : null);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": props?.label ?? "Table" },
    h("table", { class: props?.class },
      props?.label ? h("caption", { class: "unseen" }, props.label) : null,
      h("thead", null, h("tr", null, heads.map((head) => h("th", { scope: "col", class: align(head) }, head.replace(/^>/, ""))))),
      h("tbody", null, rows.map((row) => h("tr", row.props, (row.cells ?? row).map((cell, i) => h("td", { class: align(heads[i]), "data-head": heads[i].replace(/^>/, "") }, cell)))))));
}

export function card(title, ...body) {
  const id = "c" + (card.count = (card.count ?? 0) + 1);
  return h("section", { class: "card", "aria-labelledby": id }, h("h2", { id }, title), body);
}
