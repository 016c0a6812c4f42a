#compdef empathy-audit
# Completes empathy-audit, and python -m audit, in zsh; needs compinit.
typeset -g _empathy_audit_table=@TABLE@
typeset -g _empathy_audit_scopes=@SCOPES@

# _empathy_audit_complete SCOPE: offers what the word before the cursor may become, each with its meaning.
_empathy_audit_complete() {
    emulate -L zsh
    setopt extended_glob
    local scopes=" $1 " cur=$PREFIX before='' probe line scope word tail shown meaning name
    local -a parts final open
    local -i files=0
    for line in ${(f)_empathy_audit_scopes}; do
        [[ ${line%% *} == $1 ]] && scopes=" ${line#* } "
    done
    # Of a list only the last value is completed: prompt=origin,per
    probe=$cur
    if [[ $cur == *=*[,\[]* ]]; then
        before=${cur%"${cur##*[,\[]}"}
        probe=${cur%%=*}=${cur##*[,\[]}
    fi
    local -A seen
    for line in ${(f)_empathy_audit_table}; do
        parts=("${(@ps:\t:)line}")
        scope=$parts[1] word=$parts[2] meaning=$parts[3]
        [[ $scopes == *" $scope "* ]] || continue
        if [[ $word == *=@files ]]; then
            [[ $cur == ${word%@files}* ]] && files=1
            continue
        fi
        [[ $word == ${probe}* ]] || continue
        [[ $word == $probe && $word == *= ]] && continue
        # One step at a time: a group before its options, an option before its values.
        tail=${word#$probe}
        shown=$word
        if [[ $tail == *=?* ]]; then shown=$probe${tail%%=*}= meaning=''; fi
        if [[ ${tail%%=*} == *.* ]]; then shown=$probe${tail%%.*}. meaning='its options'; fi
        [[ -n $before ]] && shown=$before${shown#*=}
        (( ${+seen[$shown]} )) && continue
        seen[$shown]=1
        [[ -n $meaning ]] && meaning=":$meaning"
        if [[ $shown == *[=.] ]]; then open+=("${shown//:/\\:}$meaning"); else final+=("${shown//:/\\:}$meaning"); fi
    done
    (( $#open )) && _describe -t keys option open -Q -S ''
    (( $#final )) && _describe -t values value final -Q
    if (( files )); then
        compset -P '*='
        _files
    elif [[ $scopes == *" @files "* && $cur != -* && $cur != *=* ]]; then
        _files
    fi
}

_empathy_audit() {
    if (( CURRENT == 2 )); then _empathy_audit_complete commands; else _empathy_audit_complete $words[2]; fi
}

_empathy_audit_python() {
    if [[ $words[2] == -m && $words[3] == audit ]] && (( CURRENT >= 4 )); then
        if (( CURRENT == 4 )); then _empathy_audit_complete commands; else _empathy_audit_complete $words[4]; fi
    elif (( ${+functions[_python]} )); then
        _python "$@"
    else
        _files
    fi
}

compdef _empathy_audit empathy-audit
compdef _empathy_audit_python python python3
