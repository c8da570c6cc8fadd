// opencode waits for a quota without printing anything, for days if it has to. This plugin prints
// that it waits, in the form that any program may use to report to Shiftboss.
export const ShiftbossRetries = async () => ({
  event: async ({ event }) => {
    const status = event.type === "session.status" ? event.properties?.status : undefined
    if (status?.type !== "retry") return
    const line = { shiftboss: "rate_limited", message: String(status.message ?? ""), until: status.next / 1000 }
    process.stdout.write(JSON.stringify(line) + "\n")
  },
})
