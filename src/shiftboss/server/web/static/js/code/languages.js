// What a line of a language is made of. One line is coloured at a time, because a diff shows single lines: a comment or
// a string that began on a line before is not known here.

const words = (text) => new Set(text.trim().split(/\s+/));

const STRING = String.raw`"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?`;
const TEMPLATE = "`(?:[^`\\\\]|\\\\.)*`?";
const C_COMMENT = String.raw`\/\/.*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?|^\s*\*(?:\s.*)?$`;
const HASH_COMMENT = String.raw`(?:^|\s)#.*`;

const C_WORDS = `if else for while do switch case default break continue return struct enum union const static void int
  char float double bool true false null nullptr sizeof typedef class public private protected virtual new delete
  namespace using template try catch throw this auto extern inline override final import package interface extends
  implements instanceof var val fun func let in is as when object super abstract async await yield def
  string foreach get set internal sealed readonly partial ref out where record extension guard protocol mut self`;

const C_LIKE = { comment: C_COMMENT, string: STRING, keywords: words(C_WORDS) };
const SCRIPT = {
  comment: C_COMMENT,
  string: `${STRING}|${TEMPLATE}`,
  keywords: words(`async await break case catch class const continue debugger default delete do else enum export extends
    false finally for from function if implements import in instanceof interface let new null of private protected
    public readonly return static super switch this throw true try type typeof undefined var void while yield`),
};
const PYTHON = {
  comment: String.raw`#.*`,
  string: String.raw`[rbfuRBFU]{0,2}(?:"""(?:[^"\\]|\\.|"(?!""))*(?:""")?|'''(?:[^'\\]|\\.|'(?!''))*(?:''')?|${STRING})`,
  keywords: words(`and as assert async await break case class continue def del elif else except False finally for from
    global if import in is lambda match None nonlocal not or pass raise return True try while with yield self`),
};
const GO = {
  comment: C_COMMENT,
  string: `${STRING}|${TEMPLATE}`,
  keywords: words(`break case chan const continue default defer else fallthrough false for func go goto if import
    interface map nil package range return select struct switch true type var string int bool error byte`),
};
const RUST = {
  comment: C_COMMENT,
  // A lifetime such as 'a is no string.
  string: String.raw`b?r?"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.[^']*)'`,
  keywords: words(`as async await break const continue crate dyn else enum extern false fn for if impl in let loop match
    mod move mut pub ref return self Self static struct super trait true type unsafe use where while`),
};
const RUBY = {
  comment: HASH_COMMENT,
  string: STRING,
  keywords: words(`alias and begin break case class def do else elsif end ensure false for if in module next nil not or
    redo rescue retry return self super then true undef unless until when while yield require`),
};
const SHELL = {
  comment: HASH_COMMENT,
  string: STRING,
  keywords: words(`if then else elif fi for in do done while until case esac function return local export set unset
    exit trap source readonly shift`),
};
const SQL = {
  comment: String.raw`--.*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?`,
  string: STRING,
  keywords: words(`select from where insert into values update set delete create table index drop alter add primary key
    foreign references not null default unique check and or in is like order by group having limit join left inner
    outer on as distinct union with case when then else end begin commit returning conflict do nothing exists`),
  ignoresCase: true,
};
const SETTINGS = { comment: HASH_COMMENT, string: STRING, keywords: words("true false null yes no on off") };
const JSON_TEXT = { comment: String.raw`\/\/.*`, string: String.raw`"(?:[^"\\]|\\.)*"?`, keywords: words("true false null") };
const STYLES = { comment: String.raw`\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?`, string: STRING, keywords: new Set() };
const MARKUP = {
  comment: String.raw`<!--(?:[^-]|-(?!->))*(?:-->)?`,
  string: STRING,
  keywords: new Set(),
};
const DOCKER = {
  comment: HASH_COMMENT,
  string: STRING,
  keywords: words("from run cmd copy add env arg workdir expose user entrypoint volume label healthcheck as"),
  ignoresCase: true,
};
const LUA = {
  comment: "--.*",
  string: STRING,
  keywords: words(`and break do else elseif end false for function goto if in local nil not or repeat return then true
    until while`),
};

const BY_ENDING = new Map(
  [
    ["py pyi", PYTHON],
    ["js mjs cjs jsx ts tsx mts cts vue svelte", SCRIPT],
    ["go", GO],
    ["rs", RUST],
    ["c h cc cpp cxx hpp java kt kts cs swift scala php dart m proto zig", C_LIKE],
    ["rb rake gemspec", RUBY],
    ["sh bash zsh", SHELL],
    ["sql", SQL],
    ["yaml yml toml ini cfg conf env properties", SETTINGS],
    ["json jsonc json5", JSON_TEXT],
    ["css scss less", STYLES],
    ["html htm xml svg", MARKUP],
    ["lua", LUA],
  ].flatMap(([endings, language]) => endings.split(" ").map((ending) => [ending, language])),
);
const BY_NAME = new Map([
  ["dockerfile", DOCKER],
  ["makefile", SHELL],
  ["gemfile", RUBY],
  ["rakefile", RUBY],
]);

/** The language of a path, or null for text that is not coloured. */
export function languageOf(path) {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const ending = name.includes(".") ? name.slice(name.lastIndexOf(".") + 1) : "";
  return BY_NAME.get(name) ?? BY_ENDING.get(ending) ?? null;
}
