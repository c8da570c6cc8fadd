// Light or dark: as the system has it, until somebody chooses.

import { h, replace } from "../dom.js";
import { icon } from "../icons.js";

const KEY = "shiftboss-theme";

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function toggleTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // Storage may be blocked: it then lasts until the page is loaded again.
  }
  document.dispatchEvent(new Event("themechange"));
}

export function themeButton() {
  const button = h("button.button.ghost.icon", { type: "button", onclick: toggleTheme });
  const show = () => {
    const label = isDark() ? "Use the light theme" : "Use the dark theme";
    button.setAttribute("aria-label", label);
    button.title = label;
    replace(button, icon(isDark() ? "sun" : "moon", "nav-icon"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  document.addEventListener("themechange", show);
  show();
  return button;
}
