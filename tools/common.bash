# Functions of ./quickstart, ./test and the scripts in this folder. Sourced from the top folder of the project.

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'; else bold='' dim='' green='' red='' plain=''; fi

step_started=$SECONDS
# step NAME TEXT...: prints the next step.
step() {
  step_started=$SECONDS
  printf '%s==>%s %s%s%s %s\n' "$green" "$plain" "$bold" "$1" "$plain" "${*:2}"
}
# done_with TEXT...: prints the result of the step, and how long it took.
done_with() { printf '    %s%s (%s s)%s\n' "$dim" "$*" $((SECONDS - step_started)) "$plain"; }
# fail TEXT... [-- HINT...]: prints what went wrong and how to fix it, and ends the script.
fail() {
  printf '%serror:%s %s\n' "$red" "$plain" "$1" >&2
  shift
  [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
  exit 1
}

# How many compilers to run at once: one for each core, if each has about 1.7 GB of memory.
build_jobs() {
  local cores memory_kb by_memory
  cores=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  memory_kb=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo 2>/dev/null) || memory_kb=
  by_memory=$((${memory_kb:-99999999} / 1700000))
  [ "$by_memory" -ge 1 ] || by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}

# build PRESET [TARGET...]: configures and builds build/PRESET. The tools' output goes to build/PRESET/build.log; on a
# terminal one line shows the progress.
build() {
  local preset=$1 log=build/$1/build.log targets=() fresh=()
  shift
  [ $# -eq 0 ] || targets=(--target "$@")
  mkdir -p "build/$preset"
  # A build folder that was copied from another place would build the sources there.
  if [ -f "build/$preset/CMakeCache.txt" ] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "build/$preset/CMakeCache.txt"; then
    fresh=(--fresh)
  fi
  if ! cmake --preset "$preset" "${fresh[@]}" >"$log" 2>&1; then
    tail -n 25 "$log" >&2
    fail "CMake could not configure the build (the whole output is in $log)."
  fi
  local command=(cmake --build --preset "$preset" "${targets[@]}" --parallel "$(build_jobs)") ok=0
  if [ -t 1 ]; then
    NINJA_STATUS='    [%f/%t, %e s] ' "${command[@]}" 2>&1 | tee -a "$log" | tr '\n' '\r' |
      awk -v RS='\r' -v width="$(tput cols 2>/dev/null || echo 80)" '{printf "\r\033[K%s", substr($0, 1, width - 1); fflush()} END {printf "\r\033[K"}'
    [ "${PIPESTATUS[0]}" -eq 0 ] || ok=1
  else
    "${command[@]}" >>"$log" 2>&1 || ok=1
  fi
  if [ $ok -ne 0 ]; then
    grep -m 1 -A 25 -E '^FAILED:|error:' "$log" >&2 || tail -n 25 "$log" >&2
    fail "The build failed (the whole output is in $log)."
  fi
}
