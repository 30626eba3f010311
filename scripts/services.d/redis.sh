# Redis, for scripts/services.
# shellcheck shell=bash

kind[redis]=redis
variable[redis]=OUTBOX_TEST_REDIS
# The user that everybody is who names none, and who has no password.
login[redis]=redis://default:
database[redis]=0
# In Debian's packages the server is another name of redis-check-rdb.
program[redis]='redis-'
works_in[redis]=data
writes_pid_to[redis]=../server.pid
signal_to_end[redis]=TERM
signal_to_abandon[redis]=KILL

make_redis() {
  local folder
  folder=$(state redis folder)
  as_server_user mkdir "$folder/data"
  make_certificate redis
  cat >"$folder/redis.conf" <<END
bind 127.0.0.1
dir $(working_folder redis)
pidfile $(pid_file redis)
unixsocket $folder/socket
unixsocketperm 777
maxclients 250

# The tests ask it for the port.
tls-cert-file $folder/certificate.pem
tls-key-file $folder/key.pem
tls-ca-cert-file $folder/certificate.pem
tls-auth-clients no

# What is answered stays: tests kill this server.
appendonly yes
appendfsync always
save ""
END
  chmod go+r "$folder/redis.conf"
  # The tests come by the socket, too.
  chmod go+x "$folder"
}

launch_redis() {
  if [[ -z $(state redis tls_port) ]]; then set_state redis tls_port "$(free_port)"; fi
  run_in_background redis 20 "$(PATH=$PATH:/usr/sbin command -v redis-server)" \
    "$(state redis folder)/redis.conf" --port "$(state redis port)" \
    --tls-port "$(state redis tls_port)" && return
  # Somebody else may have it.
  set_state redis tls_port ''
  return 1
}
