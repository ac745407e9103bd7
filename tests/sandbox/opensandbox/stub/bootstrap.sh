#!/bin/sh
# What starts a sandbox: the daemon that serves its API, and beside it the sandbox's own first program.
trap 'kill -TERM "$COMMAND" "$EXECD" 2> /dev/null; exit 0' TERM INT
/opt/opensandbox/execd &
EXECD=$!
"$@" &
COMMAND=$!
wait "$COMMAND"
STATUS=$?
kill -TERM "$EXECD" 2> /dev/null
exit "$STATUS"
