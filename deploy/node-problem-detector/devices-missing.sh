#!/bin/bash
# A check for node-problem-detector: does the genericdp of this node miss devices that `expect` in its
# config demands? devices-missing.sh HOST PORT prints one line and exits with 0 (none is missing),
# 1 (some are) or 2 (unknown: the daemon does not answer, or has not looked yet).
# It needs only bash: the image of node-problem-detector has no curl.
export LC_ALL=C # lengths are in bytes

end() {
  echo "$2"
  exit "$1"
}

host=${1:?HOST} port=${2:?PORT}
{ exec 3<>"/dev/tcp/$host/$port"; } 2>/dev/null || end 2 "genericdp at $host:$port does not answer"
printf 'GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$host" >&3 2>/dev/null
# With -N, bash reads thousands of bytes at once; else one at a time, which takes seconds with the
# limit of 10m CPU that the manifest of node-problem-detector has.
answer=''
while IFS= read -r -N 65536 -t 3 -u 3 part; do answer+=$part; done
answer+=$part

head=${answer%%$'\r\n\r\n'*}
body=${answer#*$'\r\n\r\n'}
[[ $head =~ ^HTTP/1\.[01]\ 200 ]] || end 2 "genericdp at $host:$port does not answer with metrics"
# What is cut off could be what is missing.
[[ ${head,,} =~ content-length:\ *([0-9]+) && ${BASH_REMATCH[1]} == "${#body}" ]] ||
  end 2 "the answer of genericdp at $host:$port is not complete"

is_valid='' expected=0 judged=0 missing=''
set -f # lines are not patterns
IFS=$'\n'
for line in $body; do # not from a here-document, which is a file or, again, read byte by byte
  case $line in
    genericdp_config_valid\ *) is_valid=${line##* } ;;
    genericdp_devices_expected\{*) expected=$((expected + 1)) ;;
    genericdp_devices_missing\{*)
      judged=$((judged + 1))
      resource=${line#*\"} number=${line##* }
      [ "${number%.0}" = 0 ] || missing+="${missing:+, }${resource%%\"*} ${number%.0}"
      ;;
  esac
done

[ -z "$missing" ] || end 1 "missing: $missing"
[ "$judged" = "$expected" ] || end 2 "genericdp has not counted its devices yet"
[ "$judged" != 0 ] || [ "${is_valid%.0}" = 1 ] || end 2 "genericdp has no valid config"
[ "$judged" != 0 ] || end 0 "no resource of this node has expect"
end 0 "no device is missing"
