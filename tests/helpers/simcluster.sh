#!/bin/bash
# The part of simcluster.py that runs inside the namespaces. FOLDER is the cluster's folder, KIT the repository.
#   switch N     the network between the hosts, and the hosts n0 to nN; killing it ends all hosts
#   boot HOST    start one host and connect it to the switch
#   host HOST    the first process of a host
set -eu
action=$1 argument=$2 state=$FOLDER/.cluster self=$(readlink -f "$0")

reap() { while :; do wait -n 2>/dev/null || sleep 0.2; done; } # the first process of a PID namespace adopts orphans

case $action in
switch)
    ip link set lo up
    ip link add br0 type bridge
    ip link set br0 up
    for number in $(seq 0 "$argument"); do "$self" boot "n$number"; done
    reap
    ;;
boot)
    number=${argument#n}
    unshare -n -u -i -m -p -f --kill-child --mount-proc --propagation private \
        "$self" host "$argument" </dev/null >"$state/log/$argument.log" 2>&1 &
    first=
    until first=$(cat "/proc/$!/task/$!/children" 2>/dev/null) && [ -n "$first" ]; do sleep 0.01; done
    first=${first// /}
    ip link add "v$number" type veth peer name eth0 netns "$first"
    ip link set "v$number" master br0 up
    echo "$first" >"$state/$argument.pid"
    ;;
host)
    hostname "$argument"
    ip link set lo up
    # Each host has its own /tmp, /run and /dev/shm; everything else is the same on every host.
    own=$state/own/$argument
    mkdir -p "$own"
    mount -t tmpfs tmpfs "$own"
    mkdir -p "$own/tmp"
    chmod 1777 "$own/tmp"
    for shared in "$FOLDER" "$KIT"; do # in case these are below /tmp
        mkdir -p "$own$shared"
        mount --rbind "$shared" "$own$shared"
    done
    mount --rbind "$own/tmp" /tmp
    mount -t tmpfs tmpfs /dev/shm
    mount -t tmpfs tmpfs /run
    mkdir -p /run/sshd /run/slurmd /run/slurmctld ~root/.ssh
    mount --bind "$state/hosts" /etc/hosts
    mount --bind "$state/ssh" ~root/.ssh
    # bash reads .bashrc for every command over ssh: it may be slow, and a simulated crash may interrupt it
    [ ! -e ~root/.bashrc ] || mount --bind /dev/null ~root/.bashrc
    cpus=$(cat "$state/cpus.$argument")
    taskset -pc "$cpus" $$ >/dev/null
    until ip link show eth0 >/dev/null 2>&1; do sleep 0.01; done
    ip addr add "$(awk -v host="$argument" '$2 == host { print $1 }' /etc/hosts)/24" dev eth0
    ip link set eth0 up
    /usr/sbin/sshd -D -f "$state/sshd_config" -E "$state/log/sshd.$argument.log" &
    if [ "$argument" = n0 ]; then
        slurmctld -D >"$state/log/slurmctld.out" 2>&1 &
    else
        slurmd -D -N "$argument" >"$state/log/slurmd.$argument.out" 2>&1 &
    fi
    reap
    ;;
esac
