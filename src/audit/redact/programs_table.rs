//! The rows of `programs.rs`: an auditor reads them in one sitting.

use super::Which::{self, From, Last, Nth, Pairs};

/// Programs that carry another command among their arguments.
#[rustfmt::skip]
pub(super) const CARRIERS: &[&str] = &[
    "sudo", "doas", "env", "nice", "ionice", "nohup", "timeout", "time", "stdbuf", "setsid", "chroot", "strace",
    "xargs", "watch", "parallel", "docker", "podman", "nerdctl", "kubectl", "oc", "ssh", "find", "flock", "runuser",
    "su", "bwrap", "unshare", "nsenter", "systemd-run",
];

/// Programs, subcommand (empty: any), options whose next element is a secret.
#[rustfmt::skip]
pub(super) const SEPARATE: &[(&str, &str, &str)] = &[
    ("sshpass", "", "-p"),
    ("redis-cli", "", "-a --pass"),
    ("docker podman nerdctl helm crane oras oc az", "login", "-p"),
    ("twine poetry", "upload", "-p"),
    ("poetry", "publish", "-p"),
    ("ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldappasswd ldapcompare", "", "-w"),
    ("ldappasswd", "", "-s -a"),
    ("zip unzip sqlcmd bcp mosquitto_pub mosquitto_sub ipmitool", "", "-P"),
    ("ssh-keygen", "", "-N -P"),
    ("curl", "", "-u --user -U --proxy-user --pass --proxy-pass -b"),
    ("http https xh xhs", "", "-a --auth"),
    ("ab siege", "", "-A"),
    ("smbclient", "", "-U"),
    ("lftp open", "", "-u"),
    ("gem", "push", "--key"),
    ("mongo mongosh mongodump mongorestore mongoimport mongoexport cqlsh rdesktop useradd usermod", "", "-p"),
    ("snmpget snmpwalk snmpset snmpbulkwalk snmpgetnext", "", "-A -X -c"),
    ("openssl", "", "-pass -passin -passout -password -hmac"),
    ("openssl", "enc", "-k -K"),
    ("skopeo buildah podman", "", "--creds --src-creds --dest-creds"),
    ("gh", "secret", "-b --body"),
    ("doctl", "init", "-t"),
    ("dotnet", "push", "-k"),
    ("aws", "put-parameter", "--value"),
    ("az", "secret", "--value"),
    ("influx", "", "-password"),
    ("keytool jarsigner", "", "-storepass -keypass -srcstorepass -deststorepass -new"),
    ("pdftotext pdfinfo pdfimages pdftoppm", "", "-upw -opw"),
];

/// Programs and the options that a secret may be glued to.
#[rustfmt::skip]
pub(super) const JOINED: &[(&str, &str)] = &[
    ("mysql mysqldump mysqladmin mysqlimport mysqlcheck mysqlshow mariadb mariadb-dump mariadb-admin mysqlsh", "-p"),
    ("sshpass 7z 7za 7zr unrar mongo", "-p"),
    ("rar", "-p -hp"),
    ("redis-cli", "-a"),
    ("curl", "-u"),
    ("ldapsearch ldapadd ldapmodify ldapdelete", "-w"),
    ("sqlcmd bcp zip unzip", "-P"),
    ("openssl", "pass:"),
    ("xfreerdp wlfreerdp", "/p: /gp:"),
    ("mvn sonar-scanner", "-Dsonar.login="),
];

/// Programs, words before, option that must be there (empty: none), and which operands behind are secret.
#[rustfmt::skip]
pub(super) const OPERANDS: &[(&str, &str, &str, Which)] = &[
    ("pulumi", "config set", "--secret", From(2)),
    ("vault", "kv put", "", Pairs),
    ("vault", "kv patch", "", Pairs),
    ("vault", "write", "", Pairs),
    ("kubectl oc", "create secret", "", Which::Literals),
    ("vault", "login", "", Nth(1)),
    ("vault", "unseal", "", Nth(1)),
    ("cargo", "login", "", Nth(1)),
    ("snyk", "auth", "", Nth(1)),
    ("ngrok", "authtoken", "", Nth(1)),
    ("ngrok", "config add-authtoken", "", Nth(1)),
    ("nuget", "setapikey", "", Nth(1)),
    ("rclone", "obscure", "", Nth(1)),
    ("mc", "alias set", "", From(3)),
    ("htpasswd", "", "-b", Last),
    ("ansible-vault", "encrypt_string", "", Nth(1)),
    ("rabbitmqctl", "add_user", "", Nth(2)),
    ("rabbitmqctl", "change_password", "", Nth(2)),
    ("rabbitmqctl", "authenticate_user", "", Nth(2)),
    ("mysqladmin mariadb-admin", "password", "", Nth(1)),
    ("nmcli", "password", "", Nth(1)),
    ("wpa_passphrase", "", "", Nth(2)),
    ("fly flyctl doppler", "secrets set", "", Pairs),
    ("bw", "unlock", "", Nth(1)),
    ("bw", "login", "", Nth(2)),
    ("redis-cli", "auth", "", From(1)),
    ("openssl", "passwd", "", Nth(1)),
    ("dotnet", "user-secrets set", "", Nth(2)),
    ("poetry composer", "config http-basic.*", "", Nth(2)),
    ("composer", "config github-oauth.*", "", Nth(1)),
    ("composer", "config gitlab-token.*", "", Nth(1)),
    ("composer", "config bearer.*", "", Nth(1)),
    ("bundle", "config set", "", Nth(2)),
];

/// Programs, and the word behind which an operand with a secret name is followed by the secret.
#[rustfmt::skip]
pub(super) const NAMED: &[(&str, &str)] = &[
    ("aws", "configure"),
    ("npm pnpm yarn git kubectl poetry pip gcloud redis-cli pulumi composer", "config"),
    ("glab gh", "variable"),
    ("jq", "--arg"),
    ("rclone", "config"),
    ("pdftk", ""),
];

/// Programs whose first operand is `USER/PASSWORD@DATABASE`.
pub(super) const ORACLE: &[&str] = &["sqlplus", "sqlldr", "expdp", "impdp", "rman", "sqlcl"];
