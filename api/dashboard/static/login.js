// Who looks at the page, where the service asks: a form for a token, and the way out again.

import { h } from "./dom.js";

/** Told by whoever was answered 401. */
export const WANTED = "podyard-login";

let dialog = null;

function open(why) {
  if (dialog) return;
  const error = h("p", { class: "why", role: "alert" }, why ?? "");
  const token = h("input", {
    id: "login-token", type: "password", autocomplete: "current-password", required: true, maxlength: 8192, spellcheck: "false",
  });
  const button = h("button", { type: "submit" }, "Log in");
  const form = h("form", { class: "login" },
    h("h2", { id: "login-title" }, "Who are you?"),
    h("p", null, "This service asks for a token; whoever runs it can make you one."),
    h("label", { for: "login-token" }, "Token"), token, error, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    error.textContent = await send(token.value.trim());
    button.disabled = false;
    if (!error.textContent) location.reload();
    else token.select();
  });
  dialog = h("dialog", { class: "login", "aria-labelledby": "login-title" }, form);
  // Behind it there is nothing to see: no key closes it.
  dialog.addEventListener("cancel", (event) => event.preventDefault());
  document.body.append(dialog);
  dialog.showModal();
  token.focus();
}

/** Why it did not work; "" where it did. */
async function send(token) {
  try {
    const answer = await fetch("/login", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) });
    if (answer.ok) return "";
    const told = await answer.json().catch(() => null);
    return answer.status === 401 ? "This token is not known, or it is over." : told?.detail ?? `The service answered ${answer.status}.`;
  } catch {
    return "The service does not answer.";
  }
}

async function leave() {
  await fetch("/logout", { method: "POST" }).catch(() => null);
  location.reload();
}

/** Say in the frame who is logged in, if anybody is. */
async function show() {
  const answer = await fetch("/v1/whoami", { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) return;
  const who = await answer.json();
  if (!who.asked) return;
  const bound = who.namespaces ? `, for ${who.namespaces.join(", ")}` : "";
  document.getElementById("who").replaceChildren(
    h("bdi", { title: `${who.role}${bound}` }, who.name), " ",
    h("button", { type: "button", class: "quiet", onclick: leave }, "Log out"));
}

document.addEventListener(WANTED, () => open());
show();
