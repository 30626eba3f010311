# Two PostgreSQL servers under Patroni, which promotes by itself, and a witness that votes
# with them, for scripts/services.
# shellcheck shell=bash

# describe_patroni <server> <kind> <variable>
describe_patroni() {
  kind[$1]=$2
  variable[$1]=$3
  login[$1]=postgresql://postgres
  program[$1]='@(python3|postgres)'
  works_in[$1]=.
  writes_pid_to[$1]=server.pid
  signal_to_end[$1]=TERM
  signal_to_abandon[$1]=KILL
}
describe_patroni patroni-witness witness ''
describe_patroni patroni-1 patroni OUTBOX_TEST_PATRONI_1
describe_patroni patroni-2 patroni OUTBOX_TEST_PATRONI_2

# vote_port <server>: where the others reach its vote; its REST interface is the next one.
vote_port() {
  if [[ -z $(state "$1" vote) ]]; then
    mkdir -p "$base/$1"
    set_state "$1" vote "$(free_port 2)"
  fi
  state "$1" vote
}

# The part of its settings that all three have. Without bind_addr it would listen on all
# addresses of the host.
vote_settings() {
  local server partners=''
  for server in patroni-witness patroni-1 patroni-2; do
    if [[ $server != "$1" ]]; then partners+=", '127.0.0.1:$(vote_port "$server")'"; fi
  done
  cat <<END
raft:
  data_dir: $(state "$1" folder)/votes
  self_addr: 127.0.0.1:$(vote_port "$1")
  bind_addr: 127.0.0.1:$(vote_port "$1")
  partner_addrs: [${partners#, }]
END
}

make_witness() {
  local folder packages
  packages=$("$root/scripts/fetch-patroni")
  packages=$(for_server_user "$1" "$packages" patroni)
  set_state "$1" packages "$packages"
  folder=$(state "$1" folder)
  as_server_user mkdir "$folder/votes"
  vote_settings "$1" >"$folder/patroni.yml"
  chmod go+r "$folder/patroni.yml"
}

make_patroni() {
  local folder rest
  make_witness "$1"
  postgres_programs "$1"
  folder=$(state "$1" folder)
  rest=127.0.0.1:$(($(vote_port "$1") + 1))
  # shellcheck disable=SC2154 # scripts/services sets it
  cat >>"$folder/patroni.yml" <<END
scope: outbox
name: $1
restapi: {listen: '$rest', connect_address: '$rest'}
bootstrap:
  dcs:
    # How long a leader is believed in that says nothing.
    ttl: 20
    loop_wait: 3
    retry_timeout: 5
    synchronous_mode: $([[ ${standby:-async} == sync ]] && say true || say false)
    postgresql:
      use_pg_rewind: true
      parameters:
        max_connections: 200
        shared_buffers: 128MB
        dynamic_shared_memory_type: mmap
        wal_keep_size: 256MB
        wal_log_hints: 'on'
        jit: 'off'
        timezone: Asia/Kathmandu
        log_timezone: UTC
  initdb: [{encoding: UTF8}, {locale: C.UTF-8}, data-checksums, no-sync]
postgresql:
  data_dir: $folder/data
  bin_dir: $(state "$1" programs)
  pgpass: $folder/pgpass
  parameters: {unix_socket_directories: ''}
  basebackup: [{checkpoint: fast}]
  # Everybody is trusted, and it wants passwords all the same.
  authentication:
    superuser: {username: postgres, password: none}
    replication: {username: postgres, password: none}
    rewind: {username: postgres, password: none}
  pg_hba: [host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]
END
}

# run_patroni <server> <seconds> <statements of Python> <argument>...
run_patroni() {
  local folder
  folder=$(state "$1" folder)
  run_in_background "$1" "$2" env "PYTHONPATH=$(state "$1" packages)" PYTHONUNBUFFERED=1 \
    /usr/bin/python3 -c "import os; open('$folder/server.pid', 'w').write(str(os.getpid()))
$3" "${@:4}"
}

launch_witness() {
  # Not a free port: the others know it.
  set_state "$1" port "$(vote_port "$1")"
  run_patroni "$1" 20 'from patroni.raft_controller import main; main()' \
    "$(state "$1" folder)/patroni.yml"
}

other_patroni() { if [[ $1 == patroni-1 ]]; then say patroni-2; else say patroni-1; fi; }

# part_of <server>: `f|0` if it leads, `t|1` if it streams from who does.
part_of() {
  postgres_sql "$1" "SELECT pg_is_in_recovery(), (SELECT count(*) FROM pg_stat_wal_receiver
    WHERE status = 'streaming')" 2>/dev/null
}
follows_leader() { [[ $(part_of "$1") == 't|1' ]]; }
takes_part() { case $(part_of "$1") in 'f|0' | 't|1') ;; *) return 1 ;; esac }

# As the Patroni of that server sees it: who is not its synchronous standby is never promoted.
standby_is_synchronous() {
  /usr/bin/python3 -c 'import sys, urllib.request
sys.exit(b"sync_standby" not in urllib.request.urlopen(sys.argv[1], timeout=5).read())' \
    "http://127.0.0.1:$(($(vote_port "$1") + 1))/cluster" 2>/dev/null
}

launch_patroni() {
  local address
  address=127.0.0.1:$(state "$1" port)
  sed -i '/listen: .*# the port$/d; /connect_address: .*# the port$/d' "$(state "$1" folder)/patroni.yml"
  printf "  listen: '%s' # the port\n  connect_address: '%s' # the port\n" "$address" "$address" \
    >>"$(state "$1" folder)/patroni.yml"
  chmod go+r "$(state "$1" folder)/patroni.yml"
  run_patroni "$1" 120 'from patroni.__main__ import main; main()' \
    "$(state "$1" folder)/patroni.yml" || return 1
  eventually 120 has_database "$1" && eventually 120 takes_part "$1" || return 1
  # The first one of a new pair has none yet.
  if running "$(other_patroni "$1")"; then can_be_promoted "$1"; fi
}

# The other one is asked: one that comes back may see the cluster as it was when it left.
can_be_promoted() {
  [[ $(state "$1" replication) != sync ]] ||
    eventually 60 standby_is_synchronous "$(other_patroni "$1")"
}

# After thaw: Patroni sees to it by itself, and this waits until it has.
rejoin_patroni() {
  eventually 120 follows_leader "$1" && can_be_promoted "$1" ||
    die "$1 does not find back to its cluster; see $base/$1/log"
}

# The first one has none, and makes it as soon as it leads.
has_database() {
  local sql
  sql=(psql -XAtq -h 127.0.0.1 -p "$(state "$1" port)" -U postgres postgres)
  case $(PGCONNECT_TIMEOUT=5 "${sql[@]}" -c "SELECT pg_is_in_recovery(), (SELECT count(*)
      FROM pg_database WHERE datname = 'outbox')" 2>/dev/null) in
    ?'|1') ;;
    'f|0') PGCONNECT_TIMEOUT=5 "${sql[@]}" -c 'CREATE DATABASE outbox' >>"$base/$1/log" 2>&1 ;;
    *) return 1 ;;
  esac
}
