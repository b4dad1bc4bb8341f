# Completion of tensortap for bash.  Commands and options come from the program's own help.
# SPDX-License-Identifier: Apache-2.0
_tensortap() {
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local word=${COMP_WORDS[COMP_CWORD]} offered
    case $before in
    --to) offered='csv json npy safetensors pt hdf5 sqlite parquet tensorboard' ;;
    --grads) offered='parameters activations all none' ;;
    --on-nonfinite) offered='warn raise' ;;
    --health) offered='warn stop' ;;
    --format) offered='text json sarif junit' ;;
    *)
        if [[ $COMP_CWORD == 1 || $command == help ]]; then
            offered=$("$program" --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p')' --help --version'
        elif [[ $word == -* ]]; then
            offered=$("$program" "$command" --help 2>/dev/null |
                sed -nE 's/^ {2,6}(-[A-Za-z-]*)(, (--[a-z-]+))?.*/\1 \3/p')
        else
            mapfile -t COMPREPLY < <(compgen -o plusdirs -f -- "$word")
            return
        fi
        ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$offered" -- "$word")
}
complete -o filenames -F _tensortap tensortap
