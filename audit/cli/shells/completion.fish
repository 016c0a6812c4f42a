# Completes empathy-audit, and python -m audit, in fish 3.0 and above.
set -g __empathy_audit_table @TABLE@
set -g __empathy_audit_scopes @SCOPES@

# Prints what the word before the cursor may become, each with its meaning; SKIP words come before the command.
function __empathy_audit_complete --argument-names skip
    set -l words (commandline -opc)
    set -e words[1..$skip]
    set -l cur (commandline -ct)
    set -l scope commands
    set -l scopes commands
    if set -q words[1]
        set scope $words[1]
        set scopes $scope
        for line in (string split \n -- $__empathy_audit_scopes)
            set -l parts (string split ' ' -- $line)
            test "$parts[1]" = "$scope"; and set scopes $parts[2..-1]
        end
    end
    # Of a list only the last value is completed: prompt=origin,per
    set -l probe $cur
    set -l before
    if set -l found (string match -r '^([^=]*=)(.*[,\[])(.*)$' -- $cur)
        set before $found[2]$found[3]
        set probe $found[2]$found[4]
    end
    set -l n (string length -- "$probe")
    set -l seen
    set -l files
    for line in (string split \n -- $__empathy_audit_table)
        set -l parts (string split \t -- $line)
        contains -- $parts[1] $scopes; or continue
        set -l word $parts[2]
        set -l meaning $parts[3]
        if string match -q -- '*=@files' $word
            set -l name (string replace -- '@files' '' $word)
            test (string sub -l (string length -- $name) -- "$cur") = "$name"; and set files $name
            continue
        end
        test (string sub -l $n -- $word) = "$probe"; or continue
        test $word = "$probe"; and string match -q -- '*=' $word; and continue
        # One step at a time: a group before its options, an option before its values.
        set -l tail (string sub -s (math $n + 1) -- $word)
        set -l shown $word
        if set -l cut (string match -r '^([^=]*=).' -- $tail)
            set shown $probe$cut[2]
            set meaning
        end
        if set -l cut (string match -r '^([^=.]*\.)' -- $tail)
            set shown $probe$cut[2]
            set meaning 'its options'
        end
        if set -q before[1]
            set shown $before(string replace -r '^[^=]*=' '' -- $shown)
        end
        contains -- $shown $seen; and continue
        set -a seen $shown
        printf '%s\t%s\n' $shown "$meaning"
    end
    if set -q files[1]
        for path in (__fish_complete_path (string replace -- $files '' $cur))
            echo $files$path
        end
    else if contains -- @files $scopes; and not string match -q -- '*=*' $cur; and not string match -q -- '-*' $cur
        __fish_complete_path $cur
    end
end

function __empathy_audit_is_module
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test "$words[2]" = -m; and test "$words[3]" = audit
end

complete -c empathy-audit -f -a '(__empathy_audit_complete 1)'
for name in python python3
    complete -c $name -n __empathy_audit_is_module -f -a '(__empathy_audit_complete 3)'
end
