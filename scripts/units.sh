#!/usr/bin/env bash
# units.sh COMMAND [--now] UNIT... : does with the units of Fulmar what systemctl does, where there is no systemd: in the
# containers of tests. COMMAND is start, stop, restart, enable, disable or is-active.
#
# Of what a unit restricts, users and capabilities are restricted here too.
set -euo pipefail

units=/usr/lib/systemd/system state=/run/units
mkdir -p "$state"

# Reads a unit: its name, file, instance, and the instance as a path.
load() {
    unit=${1%.service}
    file=$units/${unit%%@*}.service instance="" path=""
    if [[ $unit == *@* ]]; then
        file=$units/${unit%%@*}@.service instance=${unit#*@}
        printf -v path '/%b' "${instance//-//}"
    fi
    [ -e "$file" ] || { echo "Unit $unit.service not found." >&2; exit 5; }
}

# Prints the values of a key, a line for each.
values() {
    sed -n "s/^$1=//p" "$file" | sed "s|%f|$path|g; s|%i|$instance|g"
}

is_active() { [ -e "$state/$unit" ]; }

# Runs the command lines of a key, with the unit's environment and privileges.
execute() {
    local line lead=()
    case $(values DynamicUser)$(values CapabilityBoundingSet) in
        yes*) lead=(setpriv --reuid 61184 --regid 61184 --clear-groups --no-new-privs --bounding-set "$(capabilities)"
            --inh-caps "$(capabilities)" --ambient-caps "$(capabilities)") ;;
        CAP*) lead=(setpriv --no-new-privs --bounding-set "$(capabilities)") ;;
    esac
    while read -r line <&3; do
        # Words of the unit, with the variables of its environment.
        eval "exec_line=(${line#-})"
        "${lead[@]}" "${exec_line[@]}" || [[ $line == -* ]] || return 1
    done 3< <(values "$1")
}

capabilities() {
    values CapabilityBoundingSet | tr ' ' '\n' | sed 's/^CAP_/+/' | tr 'A-Z\n' 'a-z,' | sed 's/^/-all,/; s/,$//'
}

environment() {
    local line name
    while read -r line; do export "${line?}"; done < <(values Environment)
    while read -r name; do
        set -a
        # shellcheck disable=SC1090
        [[ $name == -* && ! -e ${name#-} ]] || . "${name#-}"
        set +a
    done < <(values EnvironmentFile)
}

start() {
    local other name
    for other in $(values Conflicts); do
        [[ $other != fulmar-* ]] || "$0" stop "$other"
    done
    for other in $(values BindsTo); do "$0" start "$other"; done
    if is_active; then return; fi
    environment
    for name in $(values RuntimeDirectory); do
        mkdir -p "/run/$name"
        [ "$(values DynamicUser)" != yes ] || chown 61184:61184 "/run/$name"
    done
    execute ExecStartPre
    case $(values Type) in
        notify)
            execute ExecStart >>"$state/$unit.log" 2>&1 </dev/null &
            local child=$!
            # A node that answers has told that it is ready.
            until fulmar lnetctl net show >/dev/null 2>&1; do
                kill -0 $child 2>/dev/null || { cat "$state/$unit.log" >&2; exit 1; }
                sleep 0.1
            done
            ;;
        *) execute ExecStart </dev/null ;;
    esac
    touch "$state/$unit"
}

# Prints the processes of the unit.
processes() {
    local process words
    for process in /proc/[0-9]*; do
        words=$(tr '\0' ' ' 2>/dev/null <"$process/cmdline" || true)
        case $(values Type) in
            notify) [[ $words == "$(values ExecStart) " ]] && echo "${process#/proc/}" ;;
            forking) [[ $words == */fulmar\ mount\ *" $path "* ]] && echo "${process#/proc/}" ;;
        esac
    done || true
}

stop() {
    local other process
    for other in "$state"/*; do
        [[ $other == *@* && $unit == fulmar-server && $other == */fulmar-target@* ]] && "$0" stop "${other##*/}"
    done || true
    is_active || return 0
    rm "$state/$unit"
    environment
    execute ExecStop
    for process in $(processes); do
        kill -TERM "$process"
        while [ -e "/proc/$process" ] && [ "$(cut -d' ' -f3 2>/dev/null <"/proc/$process/stat")" != Z ]; do sleep 0.1; done
    done
    execute ExecStopPost
}

restart() {
    local bound=()
    if [ "$unit" = fulmar-server ]; then
        mapfile -t bound < <(cd "$state" && ls | grep '^fulmar-target@')
    fi
    "$0" stop "$unit"
    "$0" start "$unit" "${bound[@]}"
}

# Prints the links that make others start the unit.
links() {
    local other
    for other in $(values WantedBy); do echo "/etc/systemd/system/$other.wants/$unit.service"; done
}

command=$1 now=false
shift
for word in "$@"; do
    if [ "$word" = --now ]; then now=true; continue; fi
    load "$word"
    case $command in
        start | stop | restart) "$command" ;;
        enable)
            for link in $(links); do
                mkdir -p "$(dirname "$link")"
                ln -sf "$file" "$link"
            done
            [ $now = false ] || "$0" start "$word"
            ;;
        disable)
            # shellcheck disable=SC2046
            rm -f $(links)
            [ $now = false ] || "$0" stop "$word"
            ;;
        is-active) if is_active; then echo active; else echo inactive; exit 3; fi ;;
        *) echo "units: there is no $command here" >&2; exit 2 ;;
    esac
done
