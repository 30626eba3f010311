# A Galera cluster of three MariaDB servers, for scripts/services.
# shellcheck shell=bash

for server in galera-1 galera-2 galera-3; do
  describe_mariadb "$server" galera "OUTBOX_TEST_GALERA_${server#galera-}" outbox
done

# group_port <server>: where the others of the cluster reach it. The two above are
# for the copy of the data that a new server gets.
group_port() {
  if [[ -z $(state "$1" group) ]]; then
    mkdir -p "$base/$1"
    set_state "$1" group "$(free_port 3)"
  fi
  state "$1" group
}

cluster_address() {
  local server address=''
  for server in galera-1 galera-2 galera-3; do address+=",127.0.0.1:$(group_port "$server")"; done
  say "gcomm://${address#,}"
}

# The same for as long as any of them lives, and no other cluster's.
cluster_name() { say "outbox-$(cksum <<<"$base" | cut -d ' ' -f 1)"; }

make_galera() {
  local port folder scripts
  "$root/scripts/deps" clusters || exit 75
  scripts=$("$root/scripts/fetch-galera")
  scripts=$(for_server_user "$1" "$scripts" wsrep_sst_rsync)
  set_state "$1" scripts "$scripts"
  port=$(group_port "$1")
  folder=$(state "$1" folder)
  mariadb_server "$1"
  configure_mariadb "$1" "binlog_format = ROW
innodb_autoinc_lock_mode = 2
wsrep_on = ON
wsrep_provider = /usr/lib/galera/libgalera_smm.so
wsrep_cluster_name = $(cluster_name)
wsrep_cluster_address = $(cluster_address)
wsrep_node_name = $1
wsrep_node_address = 127.0.0.1:$port
wsrep_sst_method = rsync
wsrep_sst_receive_address = 127.0.0.1:$((port + 2))
wsrep_slave_threads = 2
wsrep_provider_options = \"gmcast.listen_addr=tcp://127.0.0.1:$port;ist.recv_addr=127.0.0.1:$((port + 1));ist.recv_bind=127.0.0.1:$((port + 1));gcache.size=64M\""
  # The certificate is for clients.
  printf '[sst]\nssl_mode = DISABLED\n' >>"$folder/my.cnf"
  # The first one's data reaches the others.
  sed -i '/sql_log_bin/d' "$folder/first.sql"
  install_mariadb "$1" --wsrep-on=OFF
}

synced() {
  [[ $(mariadb_sql "$1" "SHOW STATUS LIKE 'wsrep_local_state_comment'" 2>/dev/null) == *Synced* ]]
}

# Whether any other of the cluster runs, which it could join.
cluster_lives() {
  local server
  for server in galera-1 galera-2 galera-3; do
    if [[ $server != "$1" ]] && running "$server"; then return 0; fi
  done
  return 1
}

# recovered_position <server>: the history and the number of the last commit that its data
# has, HISTORY:NUMBER; it must not run. Now and then MariaDB says it and does not end.
recovered_position() {
  as_server_user timeout --signal=KILL 30 "$(state "$1" server)" \
    --defaults-file="$(state "$1" folder)/my.cnf" --wsrep-recover \
    --log-error="$(state "$1" folder)/recovery.log" >>"$base/$1/log" 2>&1 || true
  sed -n 's/.*Recovered position: //p' "$(state "$1" folder)/recovery.log" | tail -n 1
}

# After all were killed: which of them to begin with, so that no commit is lost.
most_advanced() {
  local server last best=$1 most=-1
  for server in galera-1 galera-2 galera-3; do
    if [[ ! -f $(working_folder "$server")/grastate.dat ]]; then continue; fi
    last=$(recovered_position "$server")
    last=${last##*:}
    if ((last > most)); then best=$server most=$last; fi
  done
  say "$best"
}

launch_galera() {
  local folder position options=()
  folder=$(state "$1" folder)
  # After a crash it does not know where it was, and would have all data copied again, for
  # which one of the others stops.
  if [[ -f $folder/data/grastate.dat ]]; then
    position=$(recovered_position "$1")
    if [[ -n $position ]]; then options=("--wsrep_start_position=$position"); fi
  fi
  if ! cluster_lives "$1"; then
    local begin_with
    begin_with=$(most_advanced "$1")
    if [[ $begin_with != "$1" ]]; then
      start "$begin_with"
    else
      options+=(--wsrep-new-cluster "--init-file=$folder/first.sql")
      if [[ -f $folder/data/grastate.dat ]]; then
        sed -i 's/^safe_to_bootstrap: 0/safe_to_bootstrap: 1/' "$folder/data/grastate.dat"
      fi
    fi
  fi
  run_in_background "$1" 180 env "PATH=$(state "$1" scripts):$PATH:/usr/sbin" \
    "$(state "$1" server)" --defaults-file="$folder/my.cnf" --port="$(state "$1" port)" \
    "${options[@]}" && eventually 180 synced "$1"
}

isolate_galera() { mariadb_sql "$1" "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'"; }
rejoin_galera() {
  mariadb_sql "$1" "SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'"
  eventually 120 synced "$1" || die "$1 does not find back to its cluster; see $base/$1/log"
}
