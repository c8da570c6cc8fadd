#!/bin/sh
# A bus worker in POSIX sh with curl: register, poll, ack, execute, done, poll again.
#   shiftboss conformance --worker "sh examples/workers/bus_worker.sh"
name=$SHIFTBOSS_WORKER url=${SHIFTBOSS_URL:-http://127.0.0.1:7432} swarm=${SHIFTBOSS_SWARM:-default}
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# The token is read for every call, because it may be replaced, and no argument: others can see those.
token() {
  token=${SHIFTBOSS_TOKEN:-$(head -n 1 "${SHIFTBOSS_TOKEN_FILE:-/dev/null}")}
  [ -z "$token" ] || printf 'Authorization: Bearer %s' "$token"
}

# call OPERATION 'MEMBERS' [KEY]: the answer is in $work/answer, its HTTP status in $status. curl repeats
# a call that got no answer, 408, 429 or 5xx, with the same key, and waits as long as Retry-After asks.
call() {
  while
    status=$(token | curl -s --retry 999999 --retry-all-errors --retry-delay 1 --max-time 60 -H @- \
      -o "$work/answer" -w '%{http_code}' -H 'Content-Type: application/json' \
      ${3:+-H "Idempotency-Key: $3"} -d "{\"swarm_id\":\"$swarm\",$2}" "$url/bus/$1")
    [ "$status" = 401 ]
  do echo "$(field detail)" >&2; sleep 2; done # until there is another token
}

# field NAME: a text or a number of the answer. The text stays escaped, as JSON needs it again.
field() { sed -En 's/.*"'"$1"'":("(([^"\\]|\\.)*)"|([0-9]+)).*/\2\4/p' "$work/answer"; }

# Heartbeats in the background, until the server says that the task is no longer ours.
beat() {
  while sleep "${SHIFTBOSS_HEARTBEAT_SECONDS:-20}"; do
    beaten=$(token | curl -s --max-time 10 -H @- -H 'Content-Type: application/json' \
      -d "{\"swarm_id\":\"$swarm\",\"name\":\"$name\",\"bead_id\":\"$bead\",\"epoch\":$epoch}" \
      "$url/bus/heartbeat") || continue
    case $beaten in *"\"bead_id\":\"$bead\""* | *'"code":"unauthorized"'* | '') ;; *) : > "$work/lost" && return ;; esac
  done
}

execute() { # the work itself; the title says what to do, and $reason why it failed
  case $title in
    done) ;;
    'wait '*) until [ -e "${title#wait }" ] || [ -e "$work/lost" ]; do sleep 0.1; done ;;
    'fail '*) reason=${title#fail } && return 1 ;;
    *) reason="unknown instruction: $title" && return 1 ;;
  esac
}

call register_worker "\"name\":\"$name\""
while :; do
  call poll_task "\"name\":\"$name\",\"timeout_ms\":30000"
  if [ "$status" != 200 ]; then # the server has forgotten us
    sleep 1; call register_worker "\"name\":\"$name\""; continue
  fi
  bead=$(field bead_id) title=$(field title) epoch=$(field epoch)
  [ "$bead" ] || continue # nothing to do: poll again
  mine="\"name\":\"$name\",\"bead_id\":\"$bead\",\"epoch\":$epoch" key="$name-$bead-$epoch"
  call ack_task "$mine" "$key-ack"
  [ "$status" = 200 ] || { sleep 1; continue; } # the task was taken back
  rm -f "$work/lost"; beat & beats=$!
  if execute; then call worker_done "$mine" "$key-end"
  else call task_failed "$mine,\"reason\":\"$reason\"" "$key-end"; fi
  [ "$status" = 200 ] || echo "$bead: $(field detail)" >&2 # too late: it is no longer ours
  kill $beats 2>/dev/null; wait $beats 2>/dev/null
done
