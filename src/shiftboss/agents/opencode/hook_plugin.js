// Asks Shiftboss before every tool call. It is written into the settings of an attempt, with the
// command line of the hook in place of the placeholder below.
import { spawnSync } from "node:child_process"

const argv = "@HOOK_ARGV@"

export const Shiftboss = async ({ directory }) => ({
  "tool.execute.before": async (input, output) => {
    const call = JSON.stringify({ tool: input.tool, args: output.args ?? {}, cwd: directory })
    const hook = spawnSync(argv[0], argv.slice(1), {
      input: call,
      encoding: "utf8",
      timeout: 10000,
      maxBuffer: 1 << 20,
    })
    // Anything but a clear yes is a no, including a hook that cannot be run.
    if (hook.error || hook.status !== 0) {
      const reason = (hook.stderr || "").trim()
      throw new Error(reason || `Shiftboss refused this: its hook did not run: ${hook.error}`)
    }
  },
})
