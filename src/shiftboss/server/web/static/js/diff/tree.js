// The files of a diff as a tree of folders.

import { h } from "../dom.js";
import { exact } from "../code/unseen.js";
import { counts, isOutOfScope, scopeMark } from "./scope.js";

/** Folders with one folder in them are one line: `src/shop/api`. */
function folderTree(files) {
  const root = { folders: new Map(), files: [] };
  for (const file of files) {
    const parts = file.path.split("/");
    let folder = root;
    for (const part of parts.slice(0, -1)) {
      if (!folder.folders.has(part)) folder.folders.set(part, { folders: new Map(), files: [] });
      folder = folder.folders.get(part);
    }
    folder.files.push(file);
  }
  return merged(root);
}

function merged(folder) {
  const folders = [...folder.folders].map(([name, inner]) => {
    const below = merged(inner);
    const isChain = below.files.length === 0 && below.folders.length === 1;
    return isChain ? { ...below.folders[0], name: `${name}/${below.folders[0].name}` } : { name, ...below };
  });
  return { folders, files: folder.files };
}

/** A list of links; `onopen(file)` when one is followed. */
export function treeList(files, onopen) {
  const list = ({ folders, files: inner }) =>
    h(
      "ul",
      null,
      folders.map((folder) => h("li", null, h("span.tree-folder.mono", null, `${exact(folder.name)}/`), list(folder))),
      inner.map((file) => h("li", null, fileLink(file, onopen))),
    );
  return h("nav.diff-tree", { "aria-label": "Changed files" }, list(folderTree(files)));
}

function fileLink(file, onopen) {
  const name = file.path.slice(file.path.lastIndexOf("/") + 1);
  return h(
    "button.tree-file",
    { type: "button", title: exact(file.path), onclick: () => onopen(file) },
    h("bdi.mono.one-line", null, exact(name)),
    isOutOfScope(file) && scopeMark(file),
    counts(file),
  );
}
