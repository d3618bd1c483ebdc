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
IFS= read -r -d '' -t 3 -u 3 answer # to its end, which is not the end that read looks for

head=${answer%%$'\r\n\r\n'*}
body=${answer#*$'\r\n\r\n'}
[[ $head =~ ^HTTP/1\.[01]\ 200 ]] || end 2 "genericdp at $host:$port does not answer with metrics"
# What is cut off could be what is missing.
[[ ${head,,} =~ content-length:\ *([0-9]+) && ${BASH_REMATCH[1]} == "${#body}" ]] ||
  end 2 "the answer of genericdp at $host:$port is not complete"

is_valid='' expected=0 judged=0 missing=''
while read -r series value; do
  resource=${series#*\"} resource=${resource%%\"*}
  case $series in
    genericdp_config_valid) is_valid=${value%.0} ;;
    genericdp_devices_expected\{*) expected=$((expected + 1)) ;;
    genericdp_devices_missing\{*)
      judged=$((judged + 1))
      [ "${value%.0}" = 0 ] || missing+="${missing:+, }$resource ${value%.0}"
      ;;
  esac
done <<<"$body"

[ -z "$missing" ] || end 1 "missing: $missing"
[ "$judged" = "$expected" ] || end 2 "genericdp has not counted its devices yet"
[ "$judged" != 0 ] || [ "$is_valid" = 1 ] || end 2 "genericdp has no valid config"
[ "$judged" != 0 ] || end 0 "no resource of this node has expect"
end 0 "no device is missing"
