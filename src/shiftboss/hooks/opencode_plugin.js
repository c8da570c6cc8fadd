// Asks the hook of Shiftboss before every tool. Written into the settings of an attempt, with the
// command line of the hook in place of the word between the @.
import { spawnSync } from "node:child_process"

const argv = "@HOOK_ARGV@"

export const Shiftboss = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const asked = JSON.stringify({ tool: input.tool, args: output.args ?? {}, cwd: directory })
    const hook = spawnSync(argv[0], argv.slice(1), {
      input: asked,
      encoding: "utf8",
      timeout: 10000,
      maxBuffer: 1 << 20,
    })
    // Whatever is not a clear yes is a no: a hook that cannot be run included.
    if (hook.error || hook.status !== 0) {
      const said = (hook.stderr || "").trim()
      throw new Error(said || `Shiftboss refused this: its hook did not run: ${hook.error}`)
    }
  },
})
