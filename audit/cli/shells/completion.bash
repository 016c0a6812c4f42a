# Completes empathy-audit, and python -m audit, in bash 3.2 and above.
_empathy_audit_table=@TABLE@
_empathy_audit_scopes=@SCOPES@

# _empathy_audit_complete SCOPE: fills COMPREPLY with what the word before the cursor may become.
_empathy_audit_complete() {
    local cur=${COMP_LINE:0:COMP_POINT} scopes=" $1 " before='' files='' probe name rest scope word tail shown i
    cur=${cur##*[[:space:]]}
    while read -r name rest; do
        if [[ $name == "$1" ]]; then scopes=" $rest "; fi
    done <<< "$_empathy_audit_scopes"
    # Of a list only the last value is completed: prompt=origin,per
    probe=$cur
    if [[ $cur == *=*[,[]* ]]; then
        before=${cur%"${cur##*[,[]}"}
        probe=${cur%%=*}=${cur##*[,[]}
    fi
    COMPREPLY=()
    while IFS=$'\t' read -r scope word _; do
        [[ $scopes == *" $scope "* ]] || continue
        if [[ $word == *=@files ]]; then
            if [[ $cur == "${word%@files}"* ]]; then files=1; fi
            continue
        fi
        [[ $word == "$probe"* ]] || continue
        if [[ $word == "$probe" && $word == *= ]]; then continue; fi
        # One step at a time: a group before its options, an option before its values.
        tail=${word#"$probe"}
        case $tail in
            =) shown=$word ;;
            *=*) shown=$probe${tail%%=*}= ;;
            *) shown=$word ;;
        esac
        case ${tail%%=*} in
            *.*) shown=$probe${tail%%.*}. ;;
        esac
        if [[ -n $before ]]; then shown=$before${shown#*=}; fi
        if [[ $shown != *[=.] ]]; then shown="$shown "; fi
        for i in "${COMPREPLY[@]}"; do [[ $i == "$shown" ]] && continue 2; done
        COMPREPLY+=("$shown")
    done <<< "$_empathy_audit_table"
    if [[ -n $files ]]; then
        _empathy_audit_files "${cur%%=*}=" "${cur#*=}"
    elif [[ $scopes == *" @files "* && $cur != -* && $cur != *=* ]]; then
        _empathy_audit_files "" "$cur"
    fi
    # bash replaces only what stands after the last of these signs.
    if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"${cur%"${cur##*=}"}"}; done
    fi
}

# _empathy_audit_files BEFORE PREFIX: adds the names of files and folders that begin so.
_empathy_audit_files() {
    local file
    while IFS= read -r file; do
        if [[ -d $file ]]; then
            COMPREPLY+=("$1$(printf %q "$file")/")
        elif [[ -n $file ]]; then
            COMPREPLY+=("$1$(printf %q "$file") ")
        fi
    done <<< "$(compgen -f -- "$2")"
}

_empathy_audit() {
    if ((COMP_CWORD == 1)); then _empathy_audit_complete commands; else _empathy_audit_complete "${COMP_WORDS[1]}"; fi
}

_empathy_audit_python() {
    if [[ ${COMP_WORDS[1]} == -m && ${COMP_WORDS[2]} == audit ]] && ((COMP_CWORD >= 3)); then
        if ((COMP_CWORD == 3)); then _empathy_audit_complete commands; else _empathy_audit_complete "${COMP_WORDS[3]}"; fi
        return
    fi
    # Anything else of python is completed as before: by bash-completion, or names of files.
    if ! declare -F _python > /dev/null && declare -F _completion_loader > /dev/null; then
        _completion_loader python
        complete -o nospace -F _empathy_audit_python python python3
    fi
    COMPREPLY=()
    if declare -F _python > /dev/null; then
        type compopt > /dev/null 2>&1 && compopt +o nospace
        _python "$@"
    else
        _empathy_audit_files "" "${COMP_WORDS[COMP_CWORD]}"
    fi
}

complete -o nospace -F _empathy_audit empathy-audit
complete -o nospace -F _empathy_audit_python python python3
