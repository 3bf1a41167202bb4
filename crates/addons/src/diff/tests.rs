use serde_json::json;

use super::*;

fn change(kind: &str, before: Value, after: Value) -> Change {
    let side = |value: Value| (!value.is_null()).then_some(value);
    Change {
        id: ObjectId {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            namespace: None,
            name: "x".to_owned(),
        },
        part: Part::Object,
        before: side(before),
        after: side(after),
        refused: None,
    }
}

#[test]
fn lines_far_from_a_change_are_left_out_and_places_are_right() {
    let before: Vec<String> = (1..=20).map(|number| format!("line {number}")).collect();
    let mut after = before.clone();
    after[1] = "second".to_owned();
    after.remove(15);
    after.push("last".to_owned());
    let text = unified(&before.join("\n"), &after.join("\n"));
    let expected = "@@ -1,5 +1,5 @@\n line 1\n-line 2\n+second\n line 3\n line 4\n line 5\n\
                    @@ -13,8 +13,8 @@\n line 13\n line 14\n line 15\n-line 16\n line 17\n line 18\n line 19\n line 20\n+last\n";
    assert_eq!(text, expected);
    assert_eq!(unified("a\n", "a\n"), "");
    assert_eq!(unified("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
    assert_eq!(unified("a\n", ""), "@@ -1,1 +0,0 @@\n-a\n");
}

#[test]
fn a_text_too_large_to_compare_is_replaced_and_ends_stay() {
    let lines = |word: &str| format!("head\n{}tail\n", format!("{word}\n").repeat(3000));
    let text = unified(&lines("a"), &lines("b"));
    assert!(text.starts_with("@@ -1,3002 +1,3002 @@\n head\n-a\n"));
    assert!(text.ends_with("+b\n tail\n"));
}

#[test]
fn of_a_secret_is_shown_which_keys_change_and_nothing_that_they_hold() {
    let note = json!({"annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"new\":\"aHVudGVyMg==\"}}",
    }});
    let before = json!({"data": {"same": "c2FtZQ==", "new": "b2xk"}, "metadata": note});
    let after = json!({"data": {"same": "c2FtZQ==", "new": "aHVudGVyMg=="}, "metadata": {}});
    let shown = difference(&change("Secret", before, after), &[]).unwrap();
    assert_eq!(shown.action, Action::Change);
    assert!(
        shown
            .diff
            .contains("-  new: \"*** (before)\"\n+  new: \"*** (after)\"\n"),
        "{}",
        shown.diff
    );
    assert!(shown.diff.contains("   same: \"***\"\n"), "{}", shown.diff);
    for secret in ["aHVudGVyMg", "b2xk", "c2FtZQ"] {
        assert!(!shown.diff.contains(secret), "{}", shown.diff);
    }
}

#[test]
fn a_password_is_hidden_wherever_a_chart_puts_it() {
    let after = json!({"data": {"url": "db://user:hunter2@db"}});
    let secrets = ["hunter2".to_owned()];
    let shown = difference(&change("ConfigMap", Value::Null, after), &secrets).unwrap();
    assert_eq!(shown.action, Action::Create);
    assert!(shown.diff.contains("db://user:***@db"), "{}", shown.diff);
    let mut refused = change("Service", Value::Null, json!({}));
    refused.refused = Some("hunter2 is no port".to_owned());
    let shown = difference(&refused, &secrets).unwrap();
    assert_eq!(shown.reason.as_deref(), Some("*** is no port"));
}

#[test]
fn what_stays_as_it_is_is_not_shown() {
    let same = json!({"data": {"a": "b"}});
    assert_eq!(
        difference(&change("ConfigMap", same.clone(), same), &[]),
        None
    );
}

#[test]
fn a_hook_runs_each_time_and_what_its_secret_holds_is_not_shown() {
    let object = json!({"kind": "Secret", "stringData": {"password": "hunter2"}});
    let mut hook = change("Secret", Value::Null, object);
    hook.part = Part::Hook(vec!["pre-install".to_owned(), "post-install".to_owned()]);
    let shown = difference(&hook, &[]).unwrap();
    assert_eq!(shown.action, Action::Run);
    assert_eq!(
        shown.part.as_deref(),
        Some("hook: pre-install, post-install")
    );
    assert!(!shown.diff.contains("hunter2"), "{}", shown.diff);
}
