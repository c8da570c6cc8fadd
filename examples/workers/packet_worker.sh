#!/bin/sh
# A packet worker in POSIX sh with curl: each report is written to the checkpoint file, then sent.
#   shiftboss conformance --worker "sh examples/workers/packet_worker.sh"
url=${SHIFTBOSS_URL:-http://127.0.0.1:7432} swarm=$SHIFTBOSS_SWARM steps=$SHIFTBOSS_STEPS
id=$SHIFTBOSS_PACKET_ID name=$SHIFTBOSS_PACKET_NAME tree=$SHIFTBOSS_WORKTREE
file=$tree/.spellbook/checkpoints/packet-$id-$name.json
mkdir -p "${file%/*}"
total=$(grep -c '' "$steps") completed=0
# After a crash it goes on where its checkpoint says.
[ -e "$file" ] && completed=$(sed -En 's/.*"tasks_completed":([0-9]+).*/\1/p' "$file")

# The token is read for every report, because it may be replaced, and no argument: others can see those.
token() {
  token=${SHIFTBOSS_TOKEN:-$(head -n 1 "${SHIFTBOSS_TOKEN_FILE:-/dev/null}")}
  [ -z "$token" ] || printf 'Authorization: Bearer %s' "$token"
}

# report OPERATION EVENT 'MEMBERS OF BOTH' 'MEMBERS OF THE REPORT': the answer is in $answer. The file is
# replaced as a whole. curl repeats a report without an answer, under the same key, and it counts once.
report() {
  now=$(date -u +%Y-%m-%dT%H:%M:%S+00:00)
  printf '{"event":"%s","timestamp":"%s","packet_id":%s,"packet_name":"%s","tasks_completed":%s,"tasks_total":%s%s}' \
    "$2" "$now" "$id" "$name" "$completed" "$total" "$3" > "$file.new" && sync && mv "$file.new" "$file"
  while
    answer=$(token | curl -s --retry 999999 --retry-all-errors --retry-delay 1 --max-time 60 -H @- \
      -H 'Content-Type: application/json' -H "Idempotency-Key: $name-$1-$completed-$now" \
      -d "{\"packet_id\":$id$3$4}" "$url/swarm/$swarm/$1")
    [ "${answer#*'"code":"unauthorized"'}" != "$answer" ]
  do echo "$answer" >&2; sleep 2; done # until there is another token
}

report register registered '' ",\"packet_name\":\"$name\",\"tasks_total\":$total,\"worktree\":\"$tree\""
number=0
while read -r task verb rest <&3; do
  number=$((number + 1))
  [ "$number" -le "$completed" ] && continue
  case $verb in
    wait) until [ -e "$rest" ]; do sleep 0.1; done ;;
    error)
      case ${rest%% *} in
        network_error | rate_limit | test_flake | dependency_timeout) again=true ;;
        *) again=false ;;
      esac
      report error error ",\"task_id\":\"$task\",\"error_type\":\"${rest%% *}\",\"message\":\"${rest#* }\",\"recoverable\":$again"
      exit ;;
  esac
  completed=$number
  report progress progress ",\"task_id\":\"$task\",\"task_name\":\"Step $task\",\"status\":\"completed\"" \
    ",\"tasks_completed\":$completed,\"tasks_total\":$total"
done 3< "$steps"
report complete complete ",\"final_commit\":\"$SHIFTBOSS_FINAL_COMMIT\",\"tests_passed\":true,\"review_passed\":true"
case $answer in *'"swarm_complete":true'*) rm -f "$file" ;; esac
