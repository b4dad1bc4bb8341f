# Completion of tensortap for bash.
# SPDX-License-Identifier: Apache-2.0
_tensortap() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
    local commands='run replay ls show stats health explain nan diff report serve export graph check top rm help'
    local -A options=(
        [run]='-o --output --resume --every --only --exclude --keep --budget --inputs --grads --on-nonfinite --health --black-box --black-box-bytes --on -m'
        [replay]='--step --ops --no-ops --eager -y --yes --json'
        [ls]='--keep-last --yes --json'
        [show]='--all --classes --rank --phase --json'
        [stats]='--step --json'
        [health]='--select --ignore --baseline --format --explain --strict'
        [explain]='--max-bytes'
        [nan]='--allow --json'
        [diff]='--rtol --atol --step --only --rename --json'
        [report]='-o --output --open'
        [serve]='--port --host'
        [export]='--to -o --output --step --partial'
        [graph]='--trace-file --out --color --show-repetition --no-show-repetition --prune-leaves --no-prune-leaves --squash-name --dpi --figwidth --figheight --save-json --verbose'
        [check]='--repair --json'
        [top]='--once --json'
        [rm]='--yes --json'
    )
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$word")
    elif [[ $before == --to ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'csv json npy safetensors pt hdf5 sqlite parquet tensorboard' -- "$word")
    elif [[ $before == --grads ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'parameters activations all none' -- "$word")
    elif [[ $before == --on-nonfinite ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'warn raise' -- "$word")
    elif [[ $before == --health ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'warn stop' -- "$word")
    elif [[ $before == --format ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'text json sarif junit' -- "$word")
    elif [[ $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help" -- "$word")
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "${options[$command]-} --help" -- "$word")
    else
        mapfile -t COMPREPLY < <(compgen -o plusdirs -f -- "$word")
    fi
}
complete -o filenames -F _tensortap tensortap
