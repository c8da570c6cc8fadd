// opencode waits for a quota without a word in its output, for days if it is told to. So it says so
// here, in the form that any program may use.
export const ShiftbossRetries = async () => ({
  event: async ({ event }) => {
    const status = event.type === "session.status" ? event.properties?.status : undefined
    if (status?.type !== "retry") return
    const line = { shiftboss: "rate_limited", message: String(status.message ?? ""), until: status.next / 1000 }
    process.stdout.write(JSON.stringify(line) + "\n")
  },
})
